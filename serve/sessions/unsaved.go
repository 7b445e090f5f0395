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

// unsaved are the records of sessions whose last change could not be stored. They have the whole text, from which a
// session goes on when its model has gone, and its states with it. They are never changed.
type unsaved struct {
	mu  sync.Mutex
	all map[place]*record
}

// set notes the record of a session, or that there is none.
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

// get returns the record of a session that was changed since the revision that is stored, or nil.
func (u *unsaved) get(p place, stored string) *record {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r := u.all[p]; r != nil && r.Revision == stored {
		return r
	}
	return nil
}

// places are those of all that is pending.
func (u *unsaved) places() []place {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.all))
}

// StoreUnsaved tries once more to store what could not be stored, while its states are there: of the sessions of a
// model that is about to go, or, where m is nil, of all, without states. What cannot be stored now stays pending.
func (s *Handler) StoreUnsaved(m *host.Model) {
	for _, p := range s.unsaved.places() {
		if err := s.storeAgain(p, m); err != nil {
			s.o.Log.Warn("a session could still not be stored", "store", s.store.String(), "session", p.id, "error",
				err.Error())
		}
	}
}

// storeAgain is storePending of one session. One that a request uses is left to it.
func (s *Handler) storeAgain(p place, m *host.Model) error {
	at, cancel := context.WithCancel(context.Background())
	cancel() // it does not wait: a request may have the session while it waits for this model to go and come again
	release, err := s.lockSession(at, p)
	if err != nil {
		if request.ErrorOf(err).Status == http.StatusConflict {
			return nil
		}
		return err
	}
	defer release()
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
			return nil // it is of another model, or has to read its text again in any case
		}
		if s.save(p, &next, x) == nil {
			s.unsaved.set(p, nil)
			return nil
		}
		next = *r
	}
	// For the states there is no room. The text is small, and they can be had of it.
	next.Revision, next.StoreError, next.Stored = rand.Text(), "", 0
	if _, err := records.Put(s.store, p.recordName(), &next); err != nil {
		return err
	}
	s.unsaved.set(p, nil)
	return s.store.Remove(p.states(r.Revision))
}
