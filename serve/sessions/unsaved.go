package sessions

import (
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/request"
)

// unsaved holds the records of sessions whose last change could not be stored. A record has the whole text, from which
// a session can continue after its model was unloaded. Records never change.
type unsaved struct {
	mu  sync.Mutex
	all map[place]*record
}

// set sets the record of a session, or removes it if r is nil.
func (u *unsaved) set(p place, r *record) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r == nil {
		delete(u.all, p)
		return
	}
	if u.all == nil {
		u.all = map[place]*record{}
	}
	u.all[p] = r
}

// get returns the record of a session with an unsaved change to the given stored revision, or nil.
func (u *unsaved) get(p place, stored string) *record {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r := u.all[p]; r != nil && r.Revision == stored {
		return r
	}
	return nil
}

// places returns the places of all unsaved sessions.
func (u *unsaved) places() []place {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.all))
}

// StoreUnsaved tries again to store unsaved sessions. If m is not nil, it stores the sessions of m, which is about to
// be unloaded, with their states. Otherwise it stores all sessions, without states. Sessions that cannot be stored
// remain unsaved.
func (s *Handler) StoreUnsaved(m *host.Model) {
	for _, p := range s.unsaved.places() {
		if err := s.storeAgain(p, m); err != nil {
			s.o.Log.Warn("a session could still not be stored", "store", s.store.String(), "session", p.id, "error",
				err.Error())
		}
	}
}

// storeAgain stores one session, unless a request is using it.
func (s *Handler) storeAgain(p place, m *host.Model) error {
	at, cancel := context.WithCancel(context.Background())
	cancel() // do not wait: the request with the lock may be waiting for this model to be loaded again
	hold, err := s.lockSession(at, p)
	if err != nil {
		if request.ErrorOf(err).Status == http.StatusConflict {
			return nil
		}
		return err
	}
	defer hold.Release()
	stored, err := s.sessionRecord(p)
	if err != nil {
		if request.ErrorOf(err).Status == http.StatusNotFound { // another server has removed it
			s.unsaved.set(p, nil)
			return nil
		}
		return err
	}
	r := s.unsaved.get(p, stored.Revision)
	if r == nil {
		s.unsaved.set(p, nil) // another server has stored a change since
		return nil
	}
	next := *r
	if m != nil {
		x := m.Sessions.Get(p.id, r.Revision)
		if x == nil {
			return nil // the session is of another model, or has to read its text again in any case
		}
		if s.save(p, &next, x, nil) == nil {
			s.unsaved.set(p, nil)
			return nil
		}
		next = *r
	}
	// The states do not fit. The text is small, and reading it again restores the states.
	next.Revision, next.StoreError, next.Stored = rand.Text(), "", 0
	if _, err := records.Put(s.store, p.recordName(), &next); err != nil {
		return err
	}
	s.unsaved.set(p, nil)
	return s.store.Remove(p.states(r.Revision))
}
