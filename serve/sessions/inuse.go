package sessions

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// inUse is a session that a request has locked.
type inUse struct {
	*session.Session
	*request.Call
	server  *Handler
	model   *host.Model
	place   place
	record  *record
	changed bool // the request has started to change it
}

// withSession calls do with the session of a request and stores its changes, even after an error: the text of an
// interrupted reply remains.
func (s *Handler) withSession(c *request.Call, do func(ctx context.Context, h *inUse) error) error {
	p := place{c.Owner(), c.Request.PathValue("id")}
	hold, err := s.lockSession(c.Request.Context(), p)
	if err != nil {
		return err
	}
	defer hold.Release()
	defer c.Until(hold.Lost)() // nothing computed after that could be stored
	r, err := s.sessionRecord(p)
	if err != nil {
		return err
	}
	// Wait for the model before admission. A request that waits for its model must not hold a place that another
	// request needs to finish, since the model may have to wait for that request.
	m, err := s.Host.Model(c, r.Model)
	if err != nil {
		return err
	}
	c.Note("model", m.Name)
	if err := c.Enter(s.Admit); err != nil {
		return err
	}
	defer c.Leave(s.Admit)
	h, err := s.use(c, p, r, m)
	if err != nil {
		return err
	}
	err = do(c.Request.Context(), h)
	if errors.Is(err, sample.ErrLogits) { // an imported state may be finite and still lead to infinities
		return &request.Error{
			Status: http.StatusUnprocessableEntity, Code: "not_finite",
			Message: fmt.Sprintf("the session %s cannot continue: %v; rewind it to an earlier position", p.id, err),
		}
	}
	return err
}

// respondWith is like withSession, and responds with the result of do after unlocking the session. So a client can use
// the session as soon as it has the response, and a slow client does not delay others.
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

// use returns the session at a place, which must be locked, with its record and model.
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
		s.unsaved.set(p, nil) // an unsaved change is older than what another server has stored
	}
	if x == nil {
		if changed != nil { // the states were unloaded with the model, or evicted
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

// save stores the session if it has changed. On an error, the session continues in memory, its text is kept until it is
// stored, and its object reports the error. With a strict store, the session is instead reverted to its state before
// the request, and the error is returned.
func (h *inUse) save() error {
	if !h.changed {
		return nil
	}
	h.changed = false
	err := h.server.save(h.place, h.record, h.Session, nil)
	if err != nil {
		h.server.o.Log.Warn("a session could not be stored", "request", h.Call.ID, "session", h.place.id,
			"error", err.Error())
		if h.server.store.Strict() {
			h.model.Sessions.Drop(h.place.id)
			return err
		}
		record := *h.record
		h.server.unsaved.set(h.place, &record)
	} else {
		h.server.unsaved.set(h.place, nil)
	}
	h.model.Sessions.Put(&host.CachedSession{ID: h.place.id, Revision: h.record.Revision, Session: h.Session})
	return nil
}

// change calls do, which changes the session, and then stores the session.
func (h *inUse) change(do func() error) error {
	h.changed = true
	err := request.Protect(h.Request.Context(), 0, func(context.Context, int) error { return do() })
	if failed := h.save(); failed != nil {
		return failed
	}
	return err
}
