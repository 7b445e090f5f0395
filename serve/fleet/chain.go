package fleet

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/hippo-ssm/hippo/session/store"
)

// head is the first line of an entry. If the entry has a new content of the record, the content follows.
type head struct {
	Write  string `json:"write"`            // a unique name of the entry
	After  string `json:"after,omitempty"`  // Write of the entry before
	Server string `json:"server,omitempty"` // the server that holds the record; "" for none
	At     int64  `json:"at"`               // number of the entry with the content; 0: the record is removed
}

// entry is an object of a chain. An entry with the number 0 stands for the state before the first.
type entry struct {
	head
	n    int64
	body []byte
}

// gone is the name of an object beside the entries of a removed record, so that a listing need not read the entries.
// The last entry stays for goneFor: a server that has slept since before the removal must not begin the chain again.
const (
	gone    = "gone"
	goneFor = 7 * 24 * time.Hour
)

// kept is the number of entries that stay before the last one, so that a listing made while entries are created and
// deleted sees at least one.
const kept = 8

func entryName(name string, n int64) string { return fmt.Sprintf("%s/%012d", name, n) }

// newest returns the number of the last entry of a chain, and the numbers of all entries.
func (s *Store) newest(name string) (n int64, all []int64, err error) {
	err = s.Find(name+"/", func(e store.Entry) {
		if at, err := strconv.ParseInt(e.Name[len(name)+1:], 10, 64); err == nil && at > 0 {
			n, all = max(n, at), append(all, at)
		}
	})
	return n, all, err
}

// read reads an entry.
func (s *Store) read(name string, n int64) (entry, error) {
	data, err := s.Read(entryName(name, n))
	if err != nil {
		return entry{}, err
	}
	e := entry{n: n}
	line, body, ok := bytes.Cut(data, []byte{'\n'})
	if err := json.Unmarshal(line, &e.head); err != nil || !ok || e.Write == "" || e.At < 0 || e.At > n {
		return e, fmt.Errorf("%w: %s: %s is damaged", ErrUnavailable, s, entryName(name, n))
	}
	e.body = body
	return e, nil
}

// last returns the last entry of a chain and the content of the record, or nil if there is none.
func (s *Store) last(name string) (e entry, content []byte, err error) {
	for range 100 {
		n, _, err := s.newest(name)
		if err != nil || n == 0 {
			return entry{}, nil, err
		}
		e, err := s.read(name, n)
		if err == nil && e.At != n && e.At != 0 {
			var of entry
			of, err = s.read(name, e.At)
			e.body = of.body
		}
		if !errors.Is(err, fs.ErrNotExist) { // otherwise there are later entries by now
			return e, e.body, err
		}
	}
	return entry{}, nil, fmt.Errorf("%w: %s: entries of %s vanish", ErrUnavailable, s, name)
}

// errPassed reports that later entries exist than the one written, and that the bucket does not show whether they
// follow from it.
var errPassed = fmt.Errorf("%w: it does not say whether a change was stored that others have come after",
	ErrUnavailable)

// write writes an entry and deletes old ones in the background. The error is ErrLost if another server has written the
// entry after the previous one. After ErrUnavailable, the entry may or may not be stored. After errPassed, this server
// no longer holds the record.
func (s *Store) write(name string, e *entry) error {
	e.Write = rand.Text()
	data, err := json.Marshal(e.head)
	if err != nil {
		return err
	}
	data = append(append(data, '\n'), e.body...)
	if err := s.Add(entryName(name, e.n), data); err != nil {
		return err
	}
	// The name may have been free only because an earlier entry with this number was deleted after later ones replaced
	// it.
	n, all, err := s.newest(name)
	if err != nil {
		return err
	}
	if n > e.n {
		next, err := s.read(name, e.n+1)
		switch {
		case err == nil && next.After == e.Write:
			return nil // others have continued from this entry
		case err == nil:
			err = ErrLost
		case errors.Is(err, fs.ErrNotExist): // deleted, perhaps before this entry was written, perhaps after
			err = errPassed
		default:
			return errPassed
		}
		if last, e2 := s.read(name, n); e2 == nil && last.At != e.n {
			_ = s.Drop(entryName(name, e.n)) // nobody reads it
		}
		return err
	}
	s.work.Go(func() {
		for _, old := range all {
			if old < e.n-kept && old != e.At || e.At == 0 && old < e.n {
				_ = s.Drop(entryName(name, old)) // the next write tries again
			}
		}
	})
	return nil
}

// forget deletes all objects of a record that was removed long ago.
func (s *Store) forget(name string) {
	_, all, err := s.newest(name)
	for _, n := range all {
		err = errors.Join(err, s.Drop(entryName(name, n)))
	}
	if err == nil {
		_ = s.Drop(name + "/" + gone) // the next list tries again
	}
}
