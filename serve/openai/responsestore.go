package openai

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// responseRecord is a stored response. It is self-contained: others may be deleted.
type responseRecord struct {
	Response Response        `json:"response"`
	Model    string          `json:"model"`
	Identity string          `json:"identity"` // of the model
	Input    []reply.Message `json:"input"`
	Messages []reply.Message `json:"messages"` // of the whole conversation, the reply last, without instructions
	Prompt   string          `json:"prompt"`   // digest of the template's text before the reply
	Reply    string          `json:"reply"`    // as the model generated it
	// Plan is how the text up to the end of the reply was read, to find the state there or read it again with the same
	// bits. Without a plan the conversation is read as a chat.
	Plan   []records.PlanPart `json:"plan,omitempty"`
	Events []byte             `json:"events,omitempty"` // of one in the background that was created as a stream
}

// responseDir returns the folder of an owner's responses.
func responseDir(owner string) string { return records.Responses + "/" + owner }

func responseName(owner, id string) string { return responseDir(owner) + "/" + id + ".json" }

// put stores a response or a conversation. Whenever new ones fill a sixteenth of a client's limit in bytes or number,
// it removes the owner's oldest.
func (s *Responses) put(owner, id string, record any) error {
	s.store.Sweep()
	bytes, err := records.Put(s.store, responseName(owner, id), record)
	least := s.o.MaxBytes / int64(s.o.MaxResponses) // the bytes of an average response at the limit
	if err == nil && s.bytes.Add(max(bytes, least)) > s.o.MaxBytes/16 {
		s.bytes.Store(0)
		if err := s.trimResponses(owner); err != nil {
			s.o.Log.Warn("old responses could not be removed", "error", err.Error())
		}
	}
	return err
}

// trimResponses removes an owner's expired responses, and the oldest of those beyond the limits.
func (s *Responses) trimResponses(owner string) error {
	all, err := s.store.List(responseDir(owner))
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b records.Entry) int { return b.Time.Compare(a.Time) })
	bytes := int64(0)
	for i, e := range all {
		bytes += e.Bytes
		if i >= s.o.MaxResponses || bytes > s.o.MaxBytes || time.Since(e.Time) > s.o.KeepFor {
			if err := s.store.Remove(responseDir(owner) + "/" + e.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// previous returns the response that a request continues, or nil.
func (s *Responses) previous(c *request.Call, id string) (*responseRecord, error) {
	if id == "" {
		return nil, nil
	}
	r, err := s.response(c, id)
	if err == nil && r.Response.Status != ResponseCompleted && r.Response.Status != responseCut {
		return nil, request.Invalid("previous_response_id", "found a response that is %s, want one that has ended",
			r.Response.Status)
	}
	var e *request.Error
	if errors.As(err, &e) {
		e.Param, e.Code, e.Message = "previous_response_id", "previous_response_not_found",
			"previous_response_id: "+e.Message
	}
	return r, err
}

// response returns a stored response of the client.
func (s *Responses) response(c *request.Call, id string) (*responseRecord, error) {
	prefix := responsePrefix
	if strings.HasPrefix(id, records.Background) {
		prefix = records.Background
	}
	r, err := stored[responseRecord](s, c, "response", prefix, id)
	if err == nil && r.Response.unfinished() {
		return s.settle(c.Owner(), r)
	}
	return r, err
}

// stored returns a record of the client: a response or a conversation, by its id.
func stored[T any](s *Responses, c *request.Call, what, prefix, id string) (*T, error) {
	missing := &request.Error{
		Status: http.StatusNotFound, Code: "not_found",
		Message: fmt.Sprintf("found %.60q, which is no %s that this server keeps for this client", id, what),
	}
	if !records.IsID(prefix, id) {
		return nil, missing
	}
	r, name := new(T), responseName(c.Owner(), id)
	err := records.Get(s.store, name, r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missing
	case errors.Is(err, records.ErrDamaged):
		s.o.Log.Warn("a "+what+" is damaged, and set aside", "id", id, "error",
			errors.Join(err, records.SetAside(s.store, name)).Error())
		return nil, missing
	}
	return r, err
}

func (s *Responses) Delete(c *request.Call) error {
	id := c.Request.PathValue("id")
	if _, err := s.stop(c, id); err != nil {
		return err
	}
	if err := s.store.Remove(responseName(c.Owner(), id)); err != nil {
		return err
	}
	return c.JSON(request.Deleted(id, "response"))
}

// InputItems lists the input of a response's request.
func (s *Responses) InputItems(c *request.Call) error {
	r, err := s.response(c, c.Request.PathValue("id"))
	if err != nil {
		return err
	}
	return pageOfItems(c, r.inputItems())
}

// pageOfItems responds with a page of a list of items, the newest first unless the request says otherwise.
func pageOfItems(c *request.Call, items []responseItem) error {
	p, err := pageOf(c, 20, 100)
	if err != nil {
		return err
	}
	if items = slices.Clone(items); !p.Ascending {
		slices.Reverse(items)
	}
	if p.After != "" {
		i := slices.IndexFunc(items, func(item responseItem) bool { return item.ID == p.After })
		if i < 0 {
			return request.Invalid("after", "found %.60q, want the id of an item", p.After)
		}
		items = items[i+1:]
	}
	return c.JSON(newList(items[:min(p.Limit, len(items))], func(item *responseItem) *string { return &item.ID },
		len(items) > p.Limit))
}
