package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/session"
)

// sessionsHandler has sessions of clients: texts that grow, and the states of their models.
type sessionsHandler struct {
	service
	o       sessionsOptions
	store   *records
	locks   locks // of sessions
	unsaved pending
	heavy   chan struct{}
	viewing *viewing
}

// sessionsOptions bound what is stored of sessions, and say how they can be viewed.
type sessionsOptions struct {
	MaxSessions int           // of a client
	MaxBytes    int64         // of all sessions of a client
	MaxImport   int64         // bytes of a session that is sent
	KeepFor     time.Duration // after which a session that nobody uses is removed
	Queue       int           // views that wait
	QueueWait   time.Duration // after which what waits is turned away
	Views       []View        // the first is shown if none is named
	ViewTime    time.Duration // that a view may take
	Log         *slog.Logger
}

func newSessions(of service, store *records, o sessionsOptions) *sessionsHandler {
	s := &sessionsHandler{
		service: of, o: o, store: store, heavy: make(chan struct{}, mostHeavy), viewing: newViewing(o.Queue, o.QueueWait),
	}
	store.onSweep(sessionsKind, func(owner string) error {
		_, _, err := s.sessionsOf(owner)
		return err
	})
	return s
}

// newSession is the body of POST /v1/sessions. At most one of text, messages and ids is given.
type newSession struct {
	Model    string            `json:"model"`
	Text     *string           `json:"text"`
	Messages []message         `json:"messages"`
	IDs      []int32           `json:"ids"`
	Metadata map[string]string `json:"metadata"`
	continued
}

// createSession makes a session, at the end of a text if one is given. What is stored of it is not read again.
func (s *sessionsHandler) createSession(c *call) error {
	var q newSession
	if err := c.read(&q); err != nil {
		return err
	}
	m, err := s.host.model(c, q.Model)
	if err != nil {
		return err
	}
	c.note("model", m.name)
	if err := checkMetadata(q.Metadata); err != nil {
		return err
	}
	ids, param, err := q.ids(c.r.Context(), m)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		err = m.check(param, ids, s.limits.MaxPrompt, 0)
	}
	if err == nil {
		err = s.roomForSession(c.owner(), 1)
	}
	if err == nil {
		err = c.enter(s.admit)
	}
	if err != nil {
		return err
	}
	defer s.admit.leave()
	t := session.Text{}
	if len(ids) > 0 {
		t.Plan = []session.Segment{{IDs: ids}}
		gen, found, err := m.open(c.r.Context(), t.Plan, c.client())
		if err != nil {
			return err
		}
		found.tell(c.Header(), len(ids))
		t.At = session.Take(gen)
	}
	x, err := session.From(m.net, m.tok, sessionOptions(m, c.client()), t)
	if err != nil {
		return err
	}
	o, err := s.addSession(c, m, x, q.Metadata, nil)
	if err != nil {
		return err
	}
	return c.json(o)
}

// ids are those that a session begins with, and the field that has them.
func (q *newSession) ids(ctx context.Context, m *Model) (ids []int32, param string, err error) {
	given := 0
	for _, there := range []bool{q.Text != nil, len(q.Messages) > 0, q.IDs != nil} {
		if there {
			given++
		}
	}
	switch {
	case given > 1:
		err = wrong("text", "found %d of text, messages and ids, want one", given)
	case q.Continue && len(q.Messages) == 0:
		err = wrong("continue_final_message", "found true and no messages, want them, too")
	case q.Text != nil:
		param = "text"
		ids, err = m.encode(prompt{text: *q.Text})
	case len(q.Messages) > 0:
		param = "messages"
		all := &conversation{messages: q.Messages, goesOn: q.Continue}
		var before []message
		var begins string
		if before, begins, err = all.beginning(); err == nil {
			ids, err = encodeChat(ctx, m, param, before, begins)
		}
	default:
		ids, param = q.IDs, "ids"
	}
	return ids, param, err
}

// addSession stores a session that is new.
func (s *sessionsHandler) addSession(c *call, m *Model, x *session.Session, metadata map[string]string,
	from *sessionOrigin) (*sessionObject, error) {
	s.store.sweep()
	if metadata == nil {
		metadata = map[string]string{}
	}
	r := &sessionRecord{Identity: m.identity(), sessionObject: sessionObject{
		ID: sessionPrefix + rand.Text(), Object: "session", Created: now(), Model: m.name, From: from,
		Metadata: metadata,
	}}
	p := place{c.owner(), r.ID}
	if err := s.keepSession(p, r, x); err != nil {
		return nil, &Error{
			Status: http.StatusInsufficientStorage, Code: "store_failed",
			Message: fmt.Sprintf("the session could not be stored: %v", err),
		}
	}
	m.live.put(&liveSession{id: r.ID, revision: r.Revision, session: x})
	return &r.sessionObject, nil
}

// listSessions answers with all sessions of the client, the last changed first.
func (s *sessionsHandler) listSessions(c *call) error {
	ids, _, err := s.sessionsOf(c.owner())
	if err != nil {
		return err
	}
	list := struct {
		Object string          `json:"object"`
		Data   []sessionObject `json:"data"`
	}{Object: "list", Data: []sessionObject{}}
	for _, id := range ids {
		var r struct { // without the text
			sessionObject
			Revision string `json:"revision"`
		}
		p := place{c.owner(), id}
		if getRecord(s.store, p.record(), &r) != nil { // it is removed, or damaged
			continue
		}
		if changed := s.unsaved.get(p, r.Revision); changed != nil {
			r.sessionObject = changed.sessionObject
		}
		list.Data = append(list.Data, r.sessionObject)
	}
	slices.SortFunc(list.Data, func(a, b sessionObject) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), cmp.Compare(a.ID, b.ID))
	})
	return c.json(list)
}

// showSession answers with a session, and with its text if that is asked for.
func (s *sessionsHandler) showSession(c *call) error {
	if c.r.URL.Query().Get("text") != "true" {
		p := place{c.owner(), c.r.PathValue("id")}
		r, err := s.sessionRecord(p)
		if err != nil {
			return err
		}
		if changed := s.unsaved.get(p, r.Revision); changed != nil { // also while another request uses the session
			r = changed
		}
		return c.json(&r.sessionObject)
	}
	return s.answerSession(c, func(_ context.Context, h *held) (any, error) {
		return struct {
			*sessionObject
			Text string  `json:"text"`
			IDs  []int32 `json:"ids"`
		}{&h.record.sessionObject, validText(h.Text()), append([]int32{}, h.IDs()...)}, nil
	})
}

func (s *sessionsHandler) deleteSession(c *call) error {
	p := place{c.owner(), c.r.PathValue("id")}
	release, err := s.lockSession(c.r.Context(), p)
	if err != nil {
		return err
	}
	if _, err = s.sessionRecord(p); err == nil || errors.Is(err, errDamaged) {
		err = s.removeSession(p)
	}
	release() // before the answer: nothing is left of the session then
	if err != nil {
		return err
	}
	return c.json(deletedObject(p.id, "session.deleted"))
}

// forkSession makes a session that goes on from the same place.
func (s *sessionsHandler) forkSession(c *call) error {
	var q struct {
		Metadata map[string]string `json:"metadata"`
	}
	if err := c.read(&q); err != nil {
		return err
	}
	if err := checkMetadata(q.Metadata); err != nil {
		return err
	}
	return s.answerSession(c, func(_ context.Context, h *held) (any, error) {
		if err := s.roomForSession(h.place.owner, 1); err != nil {
			return nil, err
		}
		if q.Metadata == nil {
			q.Metadata = maps.Clone(h.record.Metadata)
		}
		return s.addSession(c, h.model, h.Fork(), q.Metadata, &sessionOrigin{h.place.id, h.Position()})
	})
}

// Limits of the places in a session that have names.
const (
	maxMarks    = 1000
	maxMarkName = 100
)

// markSession gives the place behind the text a name.
func (s *sessionsHandler) markSession(c *call) error {
	var q struct {
		Name   string `json:"name"`
		Remove bool   `json:"remove"`
	}
	if err := c.read(&q); err != nil {
		return err
	}
	if n := len(q.Name); n == 0 || n > maxMarkName || !utf8.ValidString(q.Name) {
		return wrong("name", "found a name of %d bytes, want 1 to %d", n, maxMarkName)
	}
	return s.answerSession(c, func(_ context.Context, h *held) (any, error) {
		_, there := h.MarkAt(q.Name)
		switch {
		case q.Remove && !there:
			return nil, wrong("name", "found no mark %q", q.Name)
		case !q.Remove && !there && len(h.Marks()) >= maxMarks:
			return nil, wrong("name", "found %d marks, want at most %d", len(h.Marks()), maxMarks)
		}
		err := h.change(func() error {
			if q.Remove {
				h.Unmark(q.Name)
			} else {
				h.Mark(q.Name)
			}
			return nil
		})
		return &h.record.sessionObject, err
	})
}

// rewound is a session that went back, and how many tokens were read again for that.
type rewound struct {
	sessionObject
	Again int `json:"read_again"`
}

// rewindSession goes back to a mark or a position.
func (s *sessionsHandler) rewindSession(c *call) error {
	var q struct {
		Mark     *string `json:"mark"`
		Position *int    `json:"position"`
	}
	if err := c.read(&q); err != nil {
		return err
	}
	if (q.Mark == nil) == (q.Position == nil) {
		return wrong("mark", "found both of mark and position, or none, want one")
	}
	return s.answerSession(c, func(ctx context.Context, h *held) (any, error) {
		to := or(q.Position, 0)
		if q.Mark != nil {
			var ok bool
			if to, ok = h.MarkAt(*q.Mark); !ok {
				return nil, wrong("mark", "found no mark %.100q in the session", *q.Mark)
			}
		}
		if to < 0 || to > h.Position() {
			return nil, wrong("position", "found %d, want 0 to %d", to, h.Position())
		}
		var again int
		err := h.change(func() (err error) {
			again, err = h.Rewind(ctx, to)
			return err
		})
		if err != nil {
			return nil, err
		}
		c.note("prompt_tokens", again)
		return rewound{h.record.sessionObject, again}, nil
	})
}
