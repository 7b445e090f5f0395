package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// responseRecord is a response as it is kept. It stands for itself: others may be deleted.
type responseRecord struct {
	Response responseObject `json:"response"`
	Model    string         `json:"model"`
	Identity string         `json:"identity"` // of the model
	Input    []message      `json:"input"`
	Messages []message      `json:"messages"` // of the whole conversation, the reply last, without instructions
	Prompt   string         `json:"prompt"`   // the digest of what the template made of all before the reply
	Reply    string         `json:"reply"`    // as the model wrote it
	// Plan is how the text up to the end of the reply was read, so that the state there is found, or read again to the
	// same bits. Without one the conversation is read as that of a chat.
	Plan []planPart `json:"plan,omitempty"`
}

// responseDir is the folder of an owner's responses.
func responseDir(owner string) string { return responsesKind + "/" + owner }

func responseName(owner, id string) string { return responseDir(owner) + "/" + id + ".json" }

// keepResponse keeps a response. From time to time, when the sixteenth part of what a client may have has been kept, or
// of how many it may have, it lets go of the owner's oldest.
func (s *openaiResponses) keepResponse(owner string, r *responseRecord) error {
	s.store.sweep()
	bytes, err := putRecord(s.store, responseName(owner, r.Response.ID), r)
	least := s.o.MaxBytes / int64(s.o.MaxResponses) // as if none were smaller
	if err == nil && s.bytes.Add(max(bytes, least)) > s.o.MaxBytes/16 {
		s.bytes.Store(0)
		if err := s.trimResponses(owner); err != nil {
			s.o.Log.Warn("old responses could not be removed", "error", err.Error())
		}
	}
	return err
}

// trimResponses lets go of an owner's responses that are too old, and of the oldest of too many, or of too many bytes.
func (s *openaiResponses) trimResponses(owner string) error {
	all, err := s.store.list(responseDir(owner))
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b entry) int { return b.time.Compare(a.time) })
	bytes := int64(0)
	for i, e := range all {
		bytes += e.bytes
		if i >= s.o.MaxResponses || bytes > s.o.MaxBytes || time.Since(e.time) > s.o.KeepFor {
			if err := s.store.remove(responseDir(owner) + "/" + e.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// previous is the response that a request goes on after, nil for none.
func (s *openaiResponses) previous(c *call, id string) (*responseRecord, error) {
	if id == "" {
		return nil, nil
	}
	r, err := s.response(c, id)
	var e *Error
	if errors.As(err, &e) {
		e.Param, e.Code, e.Message = "previous_response_id", "previous_response_not_found",
			"previous_response_id: "+e.Message
	}
	return r, err
}

// response finds a response of the client that asks.
func (s *openaiResponses) response(c *call, id string) (*responseRecord, error) {
	missing := &Error{
		Status: http.StatusNotFound, Code: "not_found",
		Message: fmt.Sprintf("found %.60q, which is no response that this server keeps for this client", id),
	}
	if !isID(responsePrefix, id) {
		return nil, missing
	}
	r, name := &responseRecord{}, responseName(c.owner(), id)
	err := getRecord(s.store, name, r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missing
	case errors.Is(err, errDamaged):
		s.o.Log.Warn("a response is damaged, and set aside", "response", id, "error",
			errors.Join(err, setAside(s.store, name)).Error())
		return nil, missing
	}
	return r, err
}

func (s *openaiResponses) showResponse(c *call) error {
	r, err := s.response(c, c.r.PathValue("id"))
	if err != nil {
		return err
	}
	if c.r.URL.Query().Get("stream") == "true" {
		return wrong("stream", "found true, want none: a response that is kept has ended")
	}
	return c.json(&r.Response)
}

func (s *openaiResponses) deleteResponse(c *call) error {
	id := c.r.PathValue("id")
	if _, err := s.response(c, id); err != nil {
		return err
	}
	if err := s.store.remove(responseName(c.owner(), id)); err != nil {
		return err
	}
	return c.json(deletedObject(id, "response"))
}

// cancelResponse returns the response: what is kept has ended, and what has not is ended by its client's going.
func (s *openaiResponses) cancelResponse(c *call) error { return s.showResponse(c) }

// responseInputItems lists what the request of a response said.
func (s *openaiResponses) responseInputItems(c *call) error {
	r, err := s.response(c, c.r.PathValue("id"))
	if err != nil {
		return err
	}
	query := c.r.URL.Query()
	limit, order := 20, query.Get("order")
	if text := query.Get("limit"); text != "" {
		limit, err = strconv.Atoi(text)
	}
	var ch checks
	const most = 100
	ch.that(err == nil && limit >= 1 && limit <= most, "limit", "found %.20q, want 1 to %d", query.Get("limit"), most)
	ch.that(order == "" || order == "asc" || order == "desc", "order", "found %.20q, want asc or desc", order)
	if ch.err != nil {
		return ch.err
	}
	items := r.inputItems()
	if order != "asc" {
		slices.Reverse(items)
	}
	if after := query.Get("after"); after != "" {
		i := slices.IndexFunc(items, func(item responseItem) bool { return item.ID == after })
		if i < 0 {
			return wrong("after", "found %.60q, want the id of an item", after)
		}
		items = items[i+1:]
	}
	list := struct {
		Object string         `json:"object"`
		Data   []responseItem `json:"data"`
		First  *string        `json:"first_id"`
		Last   *string        `json:"last_id"`
		More   bool           `json:"has_more"`
	}{Object: "list", Data: items[:min(limit, len(items))], More: len(items) > limit}
	if n := len(list.Data); n > 0 {
		list.First, list.Last = &list.Data[0].ID, &list.Data[n-1].ID
	}
	return c.json(list)
}
