package serve

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hippo-ssm/hippo/session"
)

// held is a session that a request has, and nobody else meanwhile.
type held struct {
	*session.Session
	*call
	server  *sessionsHandler
	model   *Model
	place   place
	record  *sessionRecord
	changed bool // what a request does has begun to change it
}

// withSession has a function do what a request asks for with its session, and keeps what that has changed, also where
// it fails: a reply that is cut off ends where it is.
func (s *sessionsHandler) withSession(c *call, do func(ctx context.Context, h *held) error) error {
	p := place{c.owner(), c.r.PathValue("id")}
	release, err := s.lockSession(c.r.Context(), p)
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
	m, err := s.host.model(c, r.Model)
	if err != nil {
		return err
	}
	c.note("model", m.name)
	if err := c.enter(s.admit); err != nil {
		return err
	}
	defer s.admit.leave()
	h, err := s.hold(c, p, r, m)
	if err != nil {
		return err
	}
	return do(c.r.Context(), h)
}

// answerSession is withSession, and answers with what the function returns: when nobody has the session any more, so
// that whoever has the answer does not wait for it, and a client that is slow to read it holds up nobody.
func (s *sessionsHandler) answerSession(c *call, do func(ctx context.Context, h *held) (any, error)) error {
	var answer any
	err := s.withSession(c, func(ctx context.Context, h *held) (err error) {
		answer, err = do(ctx, h)
		return err
	})
	if err != nil {
		return err
	}
	return c.json(answer)
}

// hold returns the session of a place, which is locked, with its record and model.
func (s *sessionsHandler) hold(c *call, p place, r *sessionRecord, m *Model) (_ *held, err error) {
	if !m.wrote(r.Identity) {
		return nil, &Error{
			Status: http.StatusConflict, Code: "other_model",
			Message: fmt.Sprintf("the session %s is of a model %s that had other weights, another precision or "+
				"another tokenizer than the one of this server", p.id, r.Model),
		}
	}
	x, changed := m.live.get(p.id, r.Revision), s.unsaved.get(p, r.Revision)
	if changed != nil {
		*r = *changed
	} else {
		s.unsaved.set(p, nil) // where there is one, another server has stored a change since
	}
	if x == nil {
		if changed != nil { // the states went with the model, or to make room
			x, err = sessionOf(m, r, c.client())
		} else {
			x, err = s.loadSession(p, r, m, c.client())
		}
		if err != nil {
			return nil, err
		}
		m.live.put(&liveSession{id: p.id, revision: r.Revision, session: x})
	}
	return &held{Session: x, call: c, server: s, model: m, place: p, record: r}, nil
}

// keep stores the session if it has changed. Where that fails it goes on in memory, and its object says so; its text is
// kept there until it is stored.
func (h *held) keep() {
	if !h.changed {
		return
	}
	h.changed = false
	if err := h.server.keepSession(h.place, h.record, h.Session); err != nil {
		h.server.o.Log.Warn("a session could not be stored", "request", h.call.id, "session", h.place.id,
			"error", err.Error())
		record := *h.record
		h.server.unsaved.set(h.place, &record)
	} else {
		h.server.unsaved.set(h.place, nil)
	}
	h.model.live.put(&liveSession{id: h.place.id, revision: h.record.Revision, session: h.Session})
}

// change calls a function that changes the session, and stores it.
func (h *held) change(do func() error) error {
	h.changed = true
	err := contained(h.r.Context(), 0, func(context.Context, int) error { return do() })
	h.keep()
	return err
}
