// Package sessions serves /v1/sessions: texts that are extended on the server, with their models' states. Clients can
// fork, mark, rewind, score, export and explain them.
package sessions

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
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// Handler serves the sessions of clients.
type Handler struct {
	reply.Service
	o       Options
	store   *records.Store
	locks   locks // of sessions
	unsaved unsaved
	heavy   *request.Admission // of imports and exports
	viewing *viewing
	states  sync.Mutex // held from checking the space for a state until the state is stored
	loading sync.Mutex // held while the state of a text is loaded
	hashes  sync.Map   // content hashes of the states of the server's texts, by revision
}

// Options limit the stored sessions and configure their views.
type Options struct {
	MaxSessions int           // per client
	MaxBytes    int64         // of all sessions of a client
	MaxImport   int64         // bytes of an imported session
	KeepFor     time.Duration // time after which an unused session is removed
	Queue       int           // views in the queue
	QueueWait   time.Duration // maximum time in the queue
	Views       []View        // the first one is the default
	ViewTime    time.Duration // maximum time of a view
	Signer      *session.Signer
	Trust       session.Trust // keys trusted besides the signer's own
	Libraries   []Library     // of the server
	Log         *slog.Logger
}

func New(of reply.Service, store *records.Store, o Options) *Handler {
	s := &Handler{
		Service: of, o: o, store: store, heavy: request.NewAdmission(mostHeavy, o.Queue, o.QueueWait),
		viewing: newViewing(o.Queue, o.QueueWait),
	}
	store.OnSweep(records.Sessions, func(owner string) error {
		_, _, err := s.sessionsOf(owner)
		return err
	})
	store.OnSweep(records.States, func(owner string) error {
		_, err := s.statesOf(owner)
		return err
	})
	return s
}

// newSession is the body of POST /v1/sessions. At most one of text, messages, ids and state is given.
type newSession struct {
	Model    string            `json:"model"`
	Text     *string           `json:"text"`
	Messages []reply.Message   `json:"messages"`
	IDs      []int32           `json:"ids"`
	State    *string           `json:"state"`
	Metadata map[string]string `json:"metadata"`
	reply.Continued
	request.Salted
}

// Foreign returns the foreign fields of new sessions.
func (*newSession) Foreign() request.Foreign {
	return request.Foreign{Refused: []request.Refusal{
		{"mount", "", "state, with that of a text in GET /v1/library"},
	}}
}

// Create creates a session, at the end of a text if one is given. It reads only the uncached part of the text.
func (s *Handler) Create(c *request.Call) error {
	var q newSession
	if err := c.Read(&q); err != nil {
		return err
	}
	if q.State != nil {
		return s.createFrom(c, &q)
	}
	m, err := s.Host.Model(c, q.Model)
	if err != nil {
		return err
	}
	c.Note("model", m.Name)
	if err := request.CheckMetadata(q.Metadata); err != nil {
		return err
	}
	ids, param, err := q.ids(c.Request.Context(), m)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		err = m.Check(param, ids, s.Limits.MaxPrompt, 0)
	}
	if err == nil {
		err = s.roomForSession(c.Owner(), 1)
	}
	if err == nil {
		err = c.Enter(s.Admit)
	}
	if err != nil {
		return err
	}
	defer c.Leave(s.Admit)
	t := session.Text{}
	if len(ids) > 0 {
		t.Plan = []session.Segment{{IDs: ids}}
		gen, found, err := m.Open(c.Request.Context(), t.Plan, c.Client())
		if err != nil {
			return err
		}
		found.SetHeader(c.Header(), len(ids))
		t.At = session.Take(gen)
	}
	x, err := session.From(m.Net, m.Tokenizer, sessionOptions(m, c.Client()), t)
	if err != nil {
		return err
	}
	o, err := s.addSession(c, m, x, q.Metadata, nil, nil)
	if err != nil {
		return err
	}
	return c.JSON(o)
}

// createFrom creates a session that continues from a stored state.
func (s *Handler) createFrom(c *request.Call, q *newSession) error {
	if q.Text != nil || len(q.Messages) > 0 || q.IDs != nil {
		return request.Invalid("state", "found it beside text, messages or ids, want one of them")
	}
	if err := request.CheckMetadata(q.Metadata); err != nil {
		return err
	}
	return s.adopt(c, q.Model, q.Metadata, func() ([]byte, error) { return s.stateBytes(c, *q.State) })
}

// ids returns the ids of a new session, and the name of the field that has them.
func (q *newSession) ids(ctx context.Context, m *host.Model) (ids []int32, param string, err error) {
	given := 0
	for _, there := range []bool{q.Text != nil, len(q.Messages) > 0, q.IDs != nil} {
		if there {
			given++
		}
	}
	switch {
	case given > 1:
		err = request.Invalid("text", "found %d of text, messages and ids, want one", given)
	case q.Continue && len(q.Messages) == 0:
		err = request.Invalid("continue_final_message", "found true and no messages, want them, too")
	case q.Text != nil:
		param = "text"
		ids, err = m.Encode(request.Prompt{Text: *q.Text})
	case len(q.Messages) > 0:
		param = "messages"
		all := &reply.Chat{Messages: q.Messages, Continue: q.Continue}
		var before []reply.Message
		var begins string
		if before, begins, err = all.Beginning(); err == nil {
			ids, err = reply.EncodeChat(ctx, m, param, before, begins)
		}
	default:
		ids, param = q.IDs, "ids"
	}
	return ids, param, err
}

// addSession stores a new session. file is the file that it was read from, or nil.
func (s *Handler) addSession(c *request.Call, m *host.Model, x *session.Session, metadata map[string]string,
	from *origin, file []byte) (*Session, error) {
	s.store.Sweep()
	if metadata == nil {
		metadata = map[string]string{}
	}
	r := &record{Identity: m.Identity(), Session: Session{
		ID: sessionPrefix + rand.Text(), Object: "session", Created: request.Now(), Model: m.Name, From: from,
		Metadata: metadata,
	}}
	p := place{c.Owner(), r.ID}
	if err := s.save(p, r, x, file); err != nil {
		return nil, s.failed("session", err)
	}
	m.Sessions.Put(&host.CachedSession{ID: r.ID, Revision: r.Revision, Session: x})
	return &r.Session, nil
}

// failed returns the error of a session, state or text that could not be stored.
func (s *Handler) failed(what string, err error) error {
	if s.store.Strict() {
		return err
	}
	return &request.Error{
		Status: http.StatusInsufficientStorage, Code: "store_failed",
		Message: fmt.Sprintf("the %s could not be stored: %v", what, err),
	}
}

// List responds with all sessions of the client, the most recently changed first.
func (s *Handler) List(c *request.Call) error {
	ids, _, err := s.sessionsOf(c.Owner())
	if err != nil {
		return err
	}
	list := struct {
		Object string    `json:"object"`
		Data   []Session `json:"data"`
	}{Object: "list", Data: []Session{}}
	for _, id := range ids {
		var r struct { // without the text
			Session
			Revision string `json:"revision"`
		}
		p := place{c.Owner(), id}
		if records.Get(s.store, p.recordName(), &r) != nil { // it was removed, or is damaged
			continue
		}
		if changed := s.unsaved.get(p, r.Revision); changed != nil {
			r.Session = changed.Session
		}
		list.Data = append(list.Data, r.Session)
	}
	slices.SortFunc(list.Data, func(a, b Session) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), cmp.Compare(a.ID, b.ID))
	})
	return c.JSON(list)
}

// Show responds with a session, including its text if the request asks for it.
func (s *Handler) Show(c *request.Call) error {
	if c.Query("text") != "true" {
		p := place{c.Owner(), c.Request.PathValue("id")}
		r, err := s.sessionRecord(p)
		if err != nil {
			return err
		}
		if changed := s.unsaved.get(p, r.Revision); changed != nil { // also while another request uses the session
			r = changed
		}
		return c.JSON(&r.Session)
	}
	return s.respondWith(c, func(_ context.Context, h *inUse) (any, error) {
		return struct {
			*Session
			Text string  `json:"text"`
			IDs  []int32 `json:"ids"`
		}{&h.record.Session, request.Text(h.Text()), append([]int32{}, h.IDs()...)}, nil
	})
}

func (s *Handler) Delete(c *request.Call) error {
	p := place{c.Owner(), c.Request.PathValue("id")}
	hold, err := s.lockSession(c.Request.Context(), p)
	if err != nil {
		return err
	}
	if _, err = s.sessionRecord(p); err == nil || errors.Is(err, records.ErrDamaged) {
		err = s.removeSession(p)
	}
	hold.Release() // before the response, so that the session is unlocked when the client has it
	if err != nil {
		return err
	}
	return c.JSON(request.Deleted(p.id, "session.deleted"))
}

// forkRequest is the body of /v1/sessions/{id}/fork.
type forkRequest struct {
	Metadata map[string]string `json:"metadata"`
}

// Fork creates a session that continues from the same position.
func (s *Handler) Fork(c *request.Call) error {
	var q forkRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if err := request.CheckMetadata(q.Metadata); err != nil {
		return err
	}
	return s.respondWith(c, func(_ context.Context, h *inUse) (any, error) {
		if err := s.roomForSession(h.place.owner, 1); err != nil {
			return nil, err
		}
		if q.Metadata == nil {
			q.Metadata = maps.Clone(h.record.Metadata)
		}
		return s.addSession(c, h.model, h.Fork(), q.Metadata, &origin{h.place.id, h.Position()}, nil)
	})
}

// Limits of marks in a session.
const (
	maxMarks    = 1000
	maxMarkName = 100
)

// markRequest is the body of /v1/sessions/{id}/mark.
type markRequest struct {
	Name   string `json:"name"`
	Remove bool   `json:"remove"`
}

// Mark names the end of the text.
func (s *Handler) Mark(c *request.Call) error {
	var q markRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if n := len(q.Name); n == 0 || n > maxMarkName || !utf8.ValidString(q.Name) {
		return request.Invalid("name", "found a name of %d bytes, want 1 to %d", n, maxMarkName)
	}
	return s.respondWith(c, func(_ context.Context, h *inUse) (any, error) {
		_, there := h.MarkAt(q.Name)
		switch {
		case q.Remove && !there:
			return nil, request.Invalid("name", "found no mark %q", q.Name)
		case !q.Remove && !there && len(h.Marks()) >= maxMarks:
			return nil, request.Invalid("name", "found %d marks, want at most %d", len(h.Marks()), maxMarks)
		}
		err := h.change(func() error {
			if q.Remove {
				h.Unmark(q.Name)
			} else {
				h.Mark(q.Name)
			}
			return nil
		})
		return &h.record.Session, err
	})
}

// rewound is a session after a rewind, with the number of tokens read again.
type rewound struct {
	Session
	Again int `json:"read_again"`
}

// rewindRequest is the body of /v1/sessions/{id}/rewind.
type rewindRequest struct {
	Mark     *string `json:"mark"`
	Position *int    `json:"position"`
}

// Rewind returns a session to a mark or a position.
func (s *Handler) Rewind(c *request.Call) error {
	var q rewindRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if (q.Mark == nil) == (q.Position == nil) {
		return request.Invalid("mark", "found both of mark and position, or none, want one")
	}
	return s.respondWith(c, func(ctx context.Context, h *inUse) (any, error) {
		to := request.Or(q.Position, 0)
		if q.Mark != nil {
			var ok bool
			if to, ok = h.MarkAt(*q.Mark); !ok {
				return nil, request.Invalid("mark", "found no mark %.100q in the session", *q.Mark)
			}
		}
		if to < 0 || to > h.Position() {
			return nil, request.Invalid("position", "found %d, want 0 to %d", to, h.Position())
		}
		var again int
		err := h.change(func() (err error) {
			again, err = h.Rewind(ctx, to)
			return err
		})
		if err != nil {
			return nil, err
		}
		c.Note("prompt_tokens", again)
		return rewound{h.record.Session, again}, nil
	})
}
