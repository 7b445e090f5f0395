package serve

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

	"github.com/hippo-ssm/hippo/session"
)

// sessionObject is what a client is told of a session.
type sessionObject struct {
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
	From     *sessionOrigin    `json:"forked_from"`
	Metadata map[string]string `json:"metadata"`
	// StoreError is why the last change is in the server's memory only; "" where it is stored.
	StoreError string `json:"store_error,omitempty"`
}

type sessionOrigin struct {
	ID       string `json:"id"`
	Position int    `json:"position"`
}

// sessionRecord is a session as it is kept, beside the file that has its states.
type sessionRecord struct {
	sessionObject
	Identity string     `json:"identity"`
	Revision string     `json:"revision"` // in the name of the file
	Plan     []planPart `json:"plan"`     // of the text, from which it is read again if the file is damaged
}

const sessionPrefix = "sess_"

func sessionDir(owner string) string { return sessionsKind + "/" + owner }

// Endings of the names of records and of files of states.
const (
	recordEnding = ".json"
	statesEnding = ".session"
)

// place is where a session is kept.
type place struct{ owner, id string }

func (p place) record() string { return sessionDir(p.owner) + "/" + p.id + recordEnding }

func (p place) states(revision string) string {
	return sessionDir(p.owner) + "/" + p.id + "-" + revision + statesEnding
}

// noSession is the error of a session that there is not, or not for this client.
func noSession(id string) *Error {
	return &Error{
		Status: http.StatusNotFound, Code: "session_not_found",
		Message: fmt.Sprintf("found %.60q, which is no session that this server keeps for this client", id),
	}
}

// sessionRecord reads the record of a session.
func (s *sessionsHandler) sessionRecord(p place) (*sessionRecord, error) {
	if !isID(sessionPrefix, p.id) {
		return nil, noSession(p.id)
	}
	r := &sessionRecord{}
	err := getRecord(s.store, p.record(), r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noSession(p.id)
	}
	return r, err // one that is damaged stays: hippo session import takes the file of its states
}

// describe notes what a session is.
func (r *sessionRecord) describe(x *session.Session) {
	r.Changed, r.Position, r.Marks, r.State, r.Drawn = now(), x.Position(), x.Marks(), x.StateSize(), 0
	plan := x.Segments()
	for _, part := range plan {
		if part.Drawn {
			r.Drawn += len(part.IDs)
		}
	}
	r.Plan = planParts(plan)
}

// keepSession keeps a session and its record: first a file with its states, then the record that names it, so that
// whatever happens meanwhile there is a whole session, the old one or the new one.
func (s *sessionsHandler) keepSession(p place, r *sessionRecord, x *session.Session) error {
	before := r.Revision
	next := *r
	next.Revision, next.StoreError = rand.Text(), ""
	next.describe(x)
	count := &counting{}
	err := s.store.put(p.states(next.Revision), func(w io.Writer) error {
		count.w = w
		return x.Encode(count, session.FileOptions{Marks: sessionMarks})
	})
	if err == nil {
		next.Stored = count.n
		_, err = putRecord(s.store, p.record(), &next)
		if err != nil {
			_ = s.store.remove(p.states(next.Revision)) // it is swept away later where this fails
		}
	}
	if err != nil {
		r.describe(x)
		r.StoreError = err.Error()
		return err
	}
	*r = next
	if before != "" {
		_ = s.store.remove(p.states(before)) // likewise
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
func (s *sessionsHandler) loadSession(p place, r *sessionRecord, m *Model, client string) (*session.Session, error) {
	s.sweepStates(p, r)
	data, err := s.store.get(p.states(r.Revision))
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
		_ = setAside(s.store, p.states(r.Revision)) // there may be no room for it
	}
	return sessionOf(m, r, client)
}

// sessionOf is the session of a record without its states: it reads its text again when it is used, to the same bits.
func sessionOf(m *Model, r *sessionRecord, client string) (*session.Session, error) {
	return session.From(m.net, m.tok, sessionOptions(m, client), session.Text{Plan: segments(r.Plan), Names: r.Marks})
}

// sweepStates removes the files of states of a session, which is locked, that servers which were killed have left.
func (s *sessionsHandler) sweepStates(p place, r *sessionRecord) {
	all, err := s.store.list(sessionDir(p.owner))
	if err != nil {
		return // what follows says so
	}
	for _, e := range all {
		name := sessionDir(p.owner) + "/" + e.name
		own := strings.HasPrefix(e.name, p.id+"-") && strings.HasSuffix(e.name, statesEnding)
		if own && name != p.states(r.Revision) {
			_ = s.store.remove(name) // the next use tries again
		}
	}
}

// decodeSession reads a file of a session. A panic is damage, too: the file may be anything that has a checksum.
func decodeSession(data []byte, m *Model, client string) (x *session.Session, err error) {
	defer func() {
		var p *panicked
		if errors.As(err, &p) {
			err = fmt.Errorf("%w: %w", session.ErrDamaged, err)
		}
	}()
	defer contain(&err)
	if x, err = session.Decode(data, m.net, m.tok, sessionOptions(m, client), nil); err != nil {
		return nil, err
	}
	if want := session.Chunk(m.net); x.Chunk() != want {
		return nil, fmt.Errorf("%w: found a text in pieces of %d, want %d", session.ErrDamaged, x.Chunk(), want)
	}
	return x, nil
}

// sessionMarks is the budget of the places to go back to in the file of a session, in bytes.
const sessionMarks = 8 << 20

func sessionOptions(m *Model, client string) session.Options {
	return session.Options{Runner: m.runner, Budget: sessionBudget, Client: client}
}

// sessionsOf are the ids of an owner's sessions, and the bytes that all of it takes. Those that nobody has changed for
// long are removed, and so is what killed servers have left. No record is read for it unless something is left.
func (s *sessionsHandler) sessionsOf(owner string) (ids []string, bytes int64, err error) {
	entries, err := s.store.list(sessionDir(owner))
	if err != nil {
		return nil, 0, err
	}
	records, states := map[string]entry{}, map[string][]entry{}
	for _, e := range entries {
		bytes += e.bytes
		if id, ok := strings.CutSuffix(e.name, recordEnding); ok {
			records[id] = e
			continue
		}
		id, _, _ := strings.Cut(e.name, "-")
		states[id] = append(states[id], e)
	}
	for id, e := range records {
		p := place{owner, id}
		if time.Since(e.time) > s.o.KeepFor {
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
			name := sessionDir(owner) + "/" + e.name
			if name != keep && time.Since(e.time) > leftAfter {
				_ = s.store.remove(name) // the next list tries again
			}
		}
	}
	return ids, bytes, nil
}

// leftAfter is how old a file of states must be that no record names to have been left by a server that was killed.
const leftAfter = time.Hour

// removeSession removes a session, whatever there is of it: the record first.
func (s *sessionsHandler) removeSession(p place) error {
	s.unsaved.set(p, nil)
	if err := s.store.remove(p.record()); err != nil {
		return err
	}
	all, err := s.store.list(sessionDir(p.owner))
	for _, e := range all {
		if strings.HasPrefix(e.name, p.id+"-") {
			err = errors.Join(err, s.store.remove(sessionDir(p.owner)+"/"+e.name))
		}
	}
	return err
}

// roomForSession returns an error if an owner has as many sessions, or bytes of them, as may be. More is how many come.
func (s *sessionsHandler) roomForSession(owner string, more int) error {
	all, bytes, err := s.sessionsOf(owner)
	if err != nil {
		return err
	}
	full := func(format string, args ...any) error {
		return &Error{
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
func (s *sessionsHandler) lockSession(ctx context.Context, p place) (release func(), err error) {
	if !isID(sessionPrefix, p.id) {
		return nil, noSession(p.id)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	inUse := &Error{
		Status: http.StatusConflict, Code: "session_in_use", Retry: time.Second,
		Message: fmt.Sprintf("the session %s is used by another request, and has been for %v", p.id, lockWait),
	}
	free := s.locks.lock(ctx, p.id)
	if free == nil {
		return nil, inUse
	}
	for {
		unlock, err := s.store.lock(p.record())
		if err == nil {
			return func() { unlock(); free() }, nil
		}
		if !errors.Is(err, errLocked) {
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
