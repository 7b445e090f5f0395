package sessions

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// Session describes a session to its client.
type Session struct {
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Created  int64             `json:"created_at"`
	Changed  int64             `json:"changed_at"`
	Model    string            `json:"model"`
	Position int               `json:"position"` // tokens of the text
	Drawn    int               `json:"drawn"`    // of them written by the model
	Marks    map[string]int    `json:"marks"`
	State    int               `json:"state_bytes"`  // of what the model carries
	Stored   int64             `json:"stored_bytes"` // with the text, and places to go back to
	From     *origin           `json:"forked_from"`
	Metadata map[string]string `json:"metadata"`
	// StoreError is why the last change is in the server's memory only; "" where it is stored.
	StoreError string `json:"store_error,omitempty"`
}

type origin struct {
	ID       string `json:"id"`
	Position int    `json:"position"`
}

// record is a session as it is kept, beside the file that has its states.
type record struct {
	Session
	Identity string             `json:"identity"`
	Revision string             `json:"revision"` // in the name of the file
	Plan     []records.PlanPart `json:"plan"`     // of the text, from which it is read again if the file is damaged
}

const sessionPrefix = "sess_"

func sessionDir(owner string) string { return records.Sessions + "/" + owner }

// Endings of the names of records and of files of states.
const (
	recordEnding = ".json"
	statesEnding = ".session"
)

// place is where a session is kept.
type place struct{ owner, id string }

func (p place) recordName() string { return sessionDir(p.owner) + "/" + p.id + recordEnding }

func (p place) states(revision string) string {
	return sessionDir(p.owner) + "/" + p.id + "-" + revision + statesEnding
}

// noSession is the error of a session that there is not, or not for this client.
func noSession(id string) *request.Error {
	return &request.Error{
		Status: http.StatusNotFound, Code: "session_not_found",
		Message: fmt.Sprintf("found %.60q, which is no session that this server keeps for this client", id),
	}
}

// sessionRecord reads the record of a session.
func (s *Handler) sessionRecord(p place) (*record, error) {
	if !records.IsID(sessionPrefix, p.id) {
		return nil, noSession(p.id)
	}
	r := &record{}
	err := records.Get(s.store, p.recordName(), r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noSession(p.id)
	}
	return r, err // one that is damaged stays: hippo session import takes the file of its states
}

// describe notes what a session is.
func (r *record) describe(x *session.Session) {
	r.Changed, r.Position, r.Marks, r.State, r.Drawn = request.Now(), x.Position(), x.Marks(), x.StateSize(), 0
	plan := x.Segments()
	for _, part := range plan {
		if part.Drawn {
			r.Drawn += len(part.IDs)
		}
	}
	r.Plan = records.PlanParts(plan)
}

// save keeps a session and its record: first a file with its states, then the record that names it, so that
// whatever happens meanwhile there is a whole session, the old one or the new one.
func (s *Handler) save(p place, r *record, x *session.Session) error {
	before := r.Revision
	next := *r
	next.Revision, next.StoreError = rand.Text(), ""
	next.describe(x)
	count := &counting{}
	err := s.store.Put(p.states(next.Revision), func(w io.Writer) error {
		count.w = w
		return x.Encode(count, session.FileOptions{Marks: sessionMarks})
	})
	if err == nil {
		next.Stored = count.n
		_, err = records.Put(s.store, p.recordName(), &next)
		if err != nil {
			_ = s.store.Remove(p.states(next.Revision)) // it is swept away later where this fails
		}
	}
	if err != nil {
		r.describe(x)
		r.StoreError = err.Error()
		return err
	}
	*r = next
	if before != "" {
		_ = s.store.Remove(p.states(before)) // likewise
	}
	return nil
}

// counting counts what is written.
type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// loadSession reads the states of a session. Where their file is damaged it is set aside, and the session reads its
// text again, to the same bits.
func (s *Handler) loadSession(p place, r *record, m *host.Model, client string) (*session.Session, error) {
	s.sweepStates(p, r)
	data, err := s.store.Get(p.states(r.Revision))
	if err == nil {
		var x *session.Session
		if x, err = decodeSession(data, m, client); err == nil {
			return x, nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, session.ErrDamaged) {
		return nil, err
	}
	s.o.Log.Warn("the states of a session are lost: its text is read again", "store", s.store.String(),
		"session", p.id, "error", err.Error())
	if data != nil {
		_ = records.SetAside(s.store, p.states(r.Revision)) // there may be no room for it
	}
	return sessionOf(m, r, client)
}

// sessionOf is the session of a record without its states: it reads its text again when it is used, to the same bits.
func sessionOf(m *host.Model, r *record, client string) (*session.Session, error) {
	return session.From(m.Net, m.Tokenizer, sessionOptions(m, client),
		session.Text{Plan: records.PlanSegments(r.Plan), Names: r.Marks})
}

// sweepStates removes the files of states of a session, which is locked, that servers which were killed have left.
func (s *Handler) sweepStates(p place, r *record) {
	all, err := s.store.List(sessionDir(p.owner))
	if err != nil {
		return // what follows says so
	}
	for _, e := range all {
		name := sessionDir(p.owner) + "/" + e.Name
		own := strings.HasPrefix(e.Name, p.id+"-") && strings.HasSuffix(e.Name, statesEnding)
		if own && name != p.states(r.Revision) {
			_ = s.store.Remove(name) // the next use tries again
		}
	}
}

// decodeSession reads a file of a session. A panic is damage, too: the file may be anything that has a checksum.
func decodeSession(data []byte, m *host.Model, client string) (x *session.Session, err error) {
	defer func() {
		var p *request.Panic
		if errors.As(err, &p) {
			err = fmt.Errorf("%w: %w", session.ErrDamaged, err)
		}
	}()
	defer request.Recover(&err)
	if x, err = session.Decode(data, m.Net, m.Tokenizer, sessionOptions(m, client), nil); err != nil {
		return nil, err
	}
	if want := session.Chunk(m.Net); x.Chunk() != want {
		return nil, fmt.Errorf("%w: found a text in pieces of %d, want %d", session.ErrDamaged, x.Chunk(), want)
	}
	return x, nil
}

// sessionMarks is the budget of the places to go back to in the file of a session, in bytes.
const sessionMarks = 8 << 20

func sessionOptions(m *host.Model, client string) session.Options {
	return session.Options{Runner: m.Runner, Budget: host.SessionBudget, Client: client}
}

// sessionsOf are the ids of an owner's sessions, and the bytes that all of it takes. Those that nobody has changed for
// long are removed, and so is what killed servers have left. No record is read for it unless something is left.
func (s *Handler) sessionsOf(owner string) (ids []string, bytes int64, err error) {
	entries, err := s.store.List(sessionDir(owner))
	if err != nil {
		return nil, 0, err
	}
	records, states := map[string]records.Entry{}, map[string][]records.Entry{}
	for _, e := range entries {
		bytes += e.Bytes
		if id, ok := strings.CutSuffix(e.Name, recordEnding); ok {
			records[id] = e
			continue
		}
		id, _, _ := strings.Cut(e.Name, "-")
		states[id] = append(states[id], e)
	}
	for id, e := range records {
		p := place{owner, id}
		if time.Since(e.Time) > s.o.KeepFor {
			err := s.removeSession(p)
			if err == nil {
				continue
			}
			s.o.Log.Warn("an old session could not be removed", "session", id, "error", err.Error())
		}
		ids = append(ids, id)
	}
	for id, of := range states {
		keep := ""
		if _, there := records[id]; there {
			if len(of) == 1 {
				continue // that of the record
			}
			if r, err := s.sessionRecord(place{owner, id}); err == nil {
				keep = place{owner, id}.states(r.Revision)
			}
		}
		for _, e := range of {
			name := sessionDir(owner) + "/" + e.Name
			if name != keep && time.Since(e.Time) > leftAfter {
				_ = s.store.Remove(name) // the next list tries again
			}
		}
	}
	return ids, bytes, nil
}

// leftAfter is how old a file of states must be that no record names to have been left by a server that was killed.
const leftAfter = time.Hour

// removeSession removes a session, whatever there is of it: the record first.
func (s *Handler) removeSession(p place) error {
	s.unsaved.set(p, nil)
	if err := s.store.Remove(p.recordName()); err != nil {
		return err
	}
	all, err := s.store.List(sessionDir(p.owner))
	for _, e := range all {
		if strings.HasPrefix(e.Name, p.id+"-") {
			err = errors.Join(err, s.store.Remove(sessionDir(p.owner)+"/"+e.Name))
		}
	}
	return err
}

// roomForSession returns an error if an owner has as many sessions, or bytes of them, as may be. More is how many come.
func (s *Handler) roomForSession(owner string, more int) error {
	all, bytes, err := s.sessionsOf(owner)
	if err != nil {
		return err
	}
	full := func(format string, args ...any) error {
		return &request.Error{
			Status: http.StatusForbidden, Code: "session_limit", Message: fmt.Sprintf(format, args...),
		}
	}
	if len(all)+more > s.o.MaxSessions {
		return full("found %d sessions of this client, want at most %d: delete some", len(all), s.o.MaxSessions)
	}
	if bytes > s.o.MaxBytes {
		return full("found %d bytes of sessions of this client, want at most %d: delete some", bytes, s.o.MaxBytes)
	}
	return nil
}

// lockWait is how long a request waits for others that use the same session.
const lockWait = 5 * time.Second

// lockSession keeps others, also of other servers, away from a session.
func (s *Handler) lockSession(ctx context.Context, p place) (release func(), err error) {
	if !records.IsID(sessionPrefix, p.id) {
		return nil, noSession(p.id)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	inUse := &request.Error{
		Status: http.StatusConflict, Code: "session_in_use", Retry: time.Second,
		Message: fmt.Sprintf("the session %s is used by another request, and has been for %v", p.id, lockWait),
	}
	free := s.locks.lock(ctx, p.id)
	if free == nil {
		return nil, inUse
	}
	for {
		unlock, err := s.store.Lock(p.recordName())
		if err == nil {
			return func() { unlock(); free() }, nil
		}
		if !errors.Is(err, records.ErrLocked) {
			free()
			return nil, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			free()
			return nil, inUse
		}
	}
}
