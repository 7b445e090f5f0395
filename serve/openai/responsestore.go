package openai

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// responseRecord is a stored response. It is complete by itself: others may be deleted.
type responseRecord struct {
	Response Response        `json:"response"`
	Model    string          `json:"model"`
	Identity string          `json:"identity"` // of the model
	Input    []reply.Message `json:"input"`
	Messages []reply.Message `json:"messages"` // of the whole conversation, the reply last, without instructions
	Prompt   string          `json:"prompt"`   // the digest of what the template made of all before the reply
	Reply    string          `json:"reply"`    // as the model wrote it
	// Plan is how the text up to the end of the reply was read, so that the state there is found, or read again to the
	// same bits. Without one the conversation is read as that of a chat.
	Plan []records.PlanPart `json:"plan,omitempty"`
}

// responseDir is the folder of an owner's responses.
func responseDir(owner string) string { return records.Responses + "/" + owner }

func responseName(owner, id string) string { return responseDir(owner) + "/" + id + ".json" }

// keepResponse stores a response. Whenever a sixteenth of a client's limit in bytes or in responses has been stored, it
// removes the owner's oldest.
func (s *Responses) keepResponse(owner string, r *responseRecord) error {
	s.store.Sweep()
	bytes, err := records.Put(s.store, responseName(owner, r.Response.ID), r)
	least := s.o.MaxBytes / int64(s.o.MaxResponses) // as if none were smaller
	if err == nil && s.bytes.Add(max(bytes, least)) > s.o.MaxBytes/16 {
		s.bytes.Store(0)
		if err := s.trimResponses(owner); err != nil {
			s.o.Log.Warn("old responses could not be removed", "error", err.Error())
		}
	}
	return err
}

// trimResponses removes an owner's responses that are too old, and the oldest of those beyond the limits.
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

// previous returns the response that a request continues, nil for none.
func (s *Responses) previous(c *request.Call, id string) (*responseRecord, error) {
	if id == "" {
		return nil, nil
	}
	r, err := s.response(c, id)
	var e *request.Error
	if errors.As(err, &e) {
		e.Param, e.Code, e.Message = "previous_response_id", "previous_response_not_found",
			"previous_response_id: "+e.Message
	}
	return r, err
}

// response returns a stored response of the client.
func (s *Responses) response(c *request.Call, id string) (*responseRecord, error) {
	missing := &request.Error{
		Status: http.StatusNotFound, Code: "not_found",
		Message: fmt.Sprintf("found %.60q, which is no response that this server keeps for this client", id),
	}
	if !records.IsID(responsePrefix, id) {
		return nil, missing
	}
	r, name := &responseRecord{}, responseName(c.Owner(), id)
	err := records.Get(s.store, name, r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missing
	case errors.Is(err, records.ErrDamaged):
		s.o.Log.Warn("a response is damaged, and set aside", "response", id, "error",
			errors.Join(err, records.SetAside(s.store, name)).Error())
		return nil, missing
	}
	return r, err
}

func (s *Responses) Show(c *request.Call) error {
	r, err := s.response(c, c.Request.PathValue("id"))
	if err != nil {
		return err
	}
	if c.Request.URL.Query().Get("stream") == "true" {
		return request.Invalid("stream", "found true, want none: a response that is kept has ended")
	}
	return c.JSON(&r.Response)
}

func (s *Responses) Delete(c *request.Call) error {
	id := c.Request.PathValue("id")
	if _, err := s.response(c, id); err != nil {
		return err
	}
	if err := s.store.Remove(responseName(c.Owner(), id)); err != nil {
		return err
	}
	return c.JSON(request.Deleted(id, "response"))
}

// Cancel returns the response: a stored response has ended, and a running one ends when its client disconnects.
func (s *Responses) Cancel(c *request.Call) error { return s.Show(c) }

// InputItems lists the input of a response's request.
func (s *Responses) InputItems(c *request.Call) error {
	r, err := s.response(c, c.Request.PathValue("id"))
	if err != nil {
		return err
	}
	query := c.Request.URL.Query()
	limit, order := 20, query.Get("order")
	if text := query.Get("limit"); text != "" {
		limit, err = strconv.Atoi(text)
	}
	var ch request.Checks
	const most = 100
	ch.That(err == nil && limit >= 1 && limit <= most, "limit", "found %.20q, want 1 to %d", query.Get("limit"), most)
	ch.That(order == "" || order == "asc" || order == "desc", "order", "found %.20q, want asc or desc", order)
	if ch.Err != nil {
		return ch.Err
	}
	items := r.inputItems()
	if order != "asc" {
		slices.Reverse(items)
	}
	if after := query.Get("after"); after != "" {
		i := slices.IndexFunc(items, func(item responseItem) bool { return item.ID == after })
		if i < 0 {
			return request.Invalid("after", "found %.60q, want the id of an item", after)
		}
		items = items[i+1:]
	}
	return c.JSON(newList(items[:min(limit, len(items))], func(item *responseItem) *string { return &item.ID },
		len(items) > limit))
}
