package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Lease is a record that this server holds. The lease is renewed until Release.
type Lease struct {
	s    *Store
	name string
	lost chan struct{} // closed when another server has taken the record
	done chan struct{} // closed by Release

	turn    chan struct{} // lock of the fields below: full while it is held, also during calls of the bucket
	last    entry
	content []byte
	unsure  string // Write of an entry that may or may not have been stored; "" for none
}

// sighting records when this server first saw the last entry of a record that another server holds.
type sighting struct {
	write string
	at    time.Time
}

// mostSeen is the maximum number of sightings, as a client could otherwise cause any number of them.
const mostSeen = 10_000

// Get returns the content of a record. If the record does not exist, the error is fs.ErrNotExist.
func (s *Store) Get(name string) ([]byte, error) {
	if l := s.lease(name); l != nil {
		if content, ok := l.read(); ok {
			return content, nil
		}
	}
	e, content, err := s.last(name)
	if err == nil && e.At == 0 {
		err = fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return content, err
}

// read returns the content of the record, or false if another server has taken it meanwhile.
func (l *Lease) read() ([]byte, bool) {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	select {
	case <-l.lost:
		return nil, false
	default:
		return l.content, true
	}
}

// lease returns the lease of a record that this server holds, or nil.
func (s *Store) lease(name string) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[name]
}

// Put creates a record or, if this server holds it, changes and frees it.
func (s *Store) Put(name string, data []byte) error { return s.put(name, data, true) }

// Keep is like Put, but a record that this server holds stays held.
func (s *Store) Keep(name string, data []byte) error { return s.put(name, data, false) }

func (s *Store) put(name string, data []byte, free bool) error {
	if l := s.lease(name); l != nil {
		return l.Put(data, free)
	}
	return s.write(name, &entry{n: 1, head: head{At: 1}, body: data})
}

// Lock takes a record. The error is ErrHeld if another request or server holds the record, and fs.ErrNotExist if it
// does not exist.
func (s *Store) Lock(name string) (*Lease, error) {
	e, content, err := s.last(name)
	if err == nil && e.At == 0 {
		err = fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if err == nil && !s.mayTake(name, &e) {
		err = ErrHeld
	}
	if err != nil {
		return nil, err
	}
	l := &Lease{s: s, name: name, last: e, content: content, lost: make(chan struct{}), done: make(chan struct{}),
		turn: make(chan struct{}, 1)}
	if err := l.next(s.id, nil); err != nil {
		if errors.Is(err, ErrLost) {
			err = ErrHeld
		}
		return nil, err
	}
	s.mu.Lock()
	s.held[name] = l
	delete(s.seen, name)
	s.mu.Unlock()
	s.work.Go(l.renew)
	return l, nil
}

// mayTake reports whether this server may take a record whose last entry is e. It may if the record is free, or if the
// holder has not renewed its lease for a term, measured by the clock of this server alone.
func (s *Store) mayTake(name string, e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.Server == "":
		return true
	case e.Server == s.id: // a lease that could not be released
		return s.held[name] == nil
	}
	if seen, ok := s.seen[name]; ok && seen.write == e.Write {
		return time.Since(seen.at) > s.o.Term
	}
	if len(s.seen) >= mostSeen {
		clear(s.seen)
	}
	s.seen[name] = sighting{e.Write, time.Now()}
	return false
}

// Lost returns a channel that is closed when another server has taken the record.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Put changes the record. If free is true, it also frees the record, so that another server may take it.
func (l *Lease) Put(data []byte, free bool) error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	by := l.s.id
	if free {
		by = ""
	}
	return l.next(by, data)
}

// next writes the next entry, with a new content unless data is nil. turn must be held.
func (l *Lease) next(server string, data []byte) error {
	for {
		e := &entry{n: l.last.n + 1, head: head{After: l.last.Write, Server: server, At: l.last.At}}
		if data != nil {
			e.At, e.body = e.n, data
		}
		err := l.s.write(l.name, e)
		switch {
		case err == nil:
			if l.last, l.unsure = *e, ""; data != nil {
				l.content = data
			}
			l.last.body = nil
			return nil
		case errors.Is(err, ErrLost) && l.unsure != "":
			// The entry may be an earlier one of this lease, which the bucket has stored without confirming it.
			found, err := l.s.read(l.name, e.n)
			if err == nil && found.Write == l.unsure {
				if l.last, l.unsure = found, ""; found.At == found.n {
					l.content = found.body
				}
				continue
			}
			l.lose()
			return ErrLost
		case errors.Is(err, ErrLost), errors.Is(err, errPassed):
			l.lose()
		default:
			l.unsure = e.Write
		}
		return err
	}
}

// lose records that another server has the record. turn must be held.
func (l *Lease) lose() {
	select {
	case <-l.lost:
	default:
		close(l.lost)
	}
	l.forget()
}

// forget removes the record from those that this server holds.
func (l *Lease) forget() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.held[l.name] == l {
		delete(l.s.held, l.name)
	}
}

// renew renews the lease a few times in each term.
func (l *Lease) renew() {
	const times = 5
	tick := time.NewTicker(l.s.o.Term / times)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.done:
			return
		case <-l.lost:
			return
		}
		l.turn <- struct{}{}
		if l.last.Server != "" {
			_ = l.next(l.s.id, nil) // ErrLost closes lost; after other errors the next tick tries again
		}
		<-l.turn
	}
}

// Release frees the record, unless Put has freed it. If Release fails, other servers must wait for a term.
func (l *Lease) Release() {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	close(l.done)
	select {
	case <-l.lost:
	default:
		if l.last.Server != "" {
			_ = l.next("", nil)
		}
	}
	l.forget()
}

// Change changes a record, whoever holds it. The holder loses the record. by returns the new content, or nil to remove
// the record.
func (s *Store) Change(name string, by func(content []byte) ([]byte, error)) error {
	for {
		e, content, err := s.last(name)
		if err == nil && e.At == 0 {
			err = fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		if err == nil {
			content, err = by(content)
		}
		if err != nil {
			return err
		}
		next := &entry{n: e.n + 1, head: head{After: e.Write, At: e.n + 1}, body: content}
		if content == nil {
			next.At = 0
		}
		if err := s.write(name, next); !errors.Is(err, ErrLost) {
			return err
		}
	}
}

// Remove removes a record, whoever holds it. It is no error if the record does not exist.
func (s *Store) Remove(name string) error {
	err := s.Change(name, func([]byte) ([]byte, error) { return nil, nil })
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = s.Write(name+"/"+gone, nil)
	}
	return err
}
