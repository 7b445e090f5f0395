package sessions

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// inUse is a session that one request has locked.
type inUse struct {
	*session.Session
	*request.Call
	server  *Handler
	model   *host.Model
	place   place
	record  *record
	changed bool // what a request does has begun to change it
}

// withSession has a function do what a request asks for with its session, and keeps what that has changed, also where
// it fails: a reply that is cut off ends where it is.
func (s *Handler) withSession(c *request.Call, do func(ctx context.Context, h *inUse) error) error {
	p := place{c.Owner(), c.Request.PathValue("id")}
	release, err := s.lockSession(c.Request.Context(), p)
	if err != nil {
		return err
	}
	defer release()
	r, err := s.sessionRecord(p)
	if err != nil {
		return err
	}
	// First the model, then a place among those that run: a request that waits for a model to be loaded must not keep
	// from running one whose model has to go for it.
	m, err := s.Host.Model(c, r.Model)
	if err != nil {
		return err
	}
	c.Note("model", m.Name)
	if err := c.Enter(s.Admit); err != nil {
		return err
	}
	defer s.Admit.Leave()
	h, err := s.use(c, p, r, m)
	if err != nil {
		return err
	}
	return do(c.Request.Context(), h)
}

// respondWith is withSession, and responds with what the function returns, after the session is unlocked: so a client
// that has the response need not wait for the session, and one that reads slowly delays nobody.
func (s *Handler) respondWith(c *request.Call, do func(ctx context.Context, h *inUse) (any, error)) error {
	var response any
	err := s.withSession(c, func(ctx context.Context, h *inUse) (err error) {
		response, err = do(ctx, h)
		return err
	})
	if err != nil {
		return err
	}
	return c.JSON(response)
}

// use returns the session of a place, which is locked, with its record and model.
func (s *Handler) use(c *request.Call, p place, r *record, m *host.Model) (_ *inUse, err error) {
	if !m.HasIdentity(r.Identity) {
		return nil, &request.Error{
			Status: http.StatusConflict, Code: "other_model",
			Message: fmt.Sprintf("the session %s is of a model %s that had other weights, another precision or "+
				"another tokenizer than the one of this server", p.id, r.Model),
		}
	}
	x, changed := m.Sessions.Get(p.id, r.Revision), s.unsaved.get(p, r.Revision)
	if changed != nil {
		*r = *changed
	} else {
		s.unsaved.set(p, nil) // where there is one, another server has stored a change since
	}
	if x == nil {
		if changed != nil { // the states went with the model, or to make room
			x, err = sessionOf(m, r, c.Client())
		} else {
			x, err = s.loadSession(p, r, m, c.Client())
		}
		if err != nil {
			return nil, err
		}
		m.Sessions.Put(&host.CachedSession{ID: p.id, Revision: r.Revision, Session: x})
	}
	return &inUse{Session: x, Call: c, server: s, model: m, place: p, record: r}, nil
}

// save stores the session if it has changed. Where that fails it goes on in memory, and its object says so; its text is
// kept there until it is stored.
func (h *inUse) save() {
	if !h.changed {
		return
	}
	h.changed = false
	if err := h.server.save(h.place, h.record, h.Session); err != nil {
		h.server.o.Log.Warn("a session could not be stored", "request", h.Call.ID, "session", h.place.id,
			"error", err.Error())
		record := *h.record
		h.server.unsaved.set(h.place, &record)
	} else {
		h.server.unsaved.set(h.place, nil)
	}
	h.model.Sessions.Put(&host.CachedSession{ID: h.place.id, Revision: h.record.Revision, Session: h.Session})
}

// change calls a function that changes the session, and stores it.
func (h *inUse) change(do func() error) error {
	h.changed = true
	err := request.Protect(h.Request.Context(), 0, func(context.Context, int) error { return do() })
	h.save()
	return err
}
