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

// head is the first line of an entry. The content of the record follows if it is new.
type head struct {
	Write  string `json:"write"`            // a name that no other entry has
	After  string `json:"after,omitempty"`  // Write of the entry before
	Server string `json:"server,omitempty"` // that holds the record; "" for none
	At     int64  `json:"at"`               // number of the entry with the content; 0: the record is removed
}

// entry is an object of a chain. The number 0 stands before the first.
type entry struct {
	head
	n    int64
	body []byte
}

// gone is the name of an object beside the entries of a removed record, so that lists need not read them. The last
// entry stays for goneFor: a server that has slept all the time must not begin the chain again.
const (
	gone    = "gone"
	goneFor = 7 * 24 * time.Hour
)

// kept is the number of entries that stay behind the last. A list that is made while entries come and go sees one.
const kept = 8

func entryName(name string, n int64) string { return fmt.Sprintf("%s/%012d", name, n) }

// newest returns the number of the last entry of a chain, and those of all.
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

// last returns the last entry of a chain and the content of the record, nil if there is none.
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
		if !errors.Is(err, fs.ErrNotExist) { // else there are later ones by now
			return e, e.body, err
		}
	}
	return entry{}, nil, fmt.Errorf("%w: %s: entries of %s vanish", ErrUnavailable, s, name)
}

// errPassed is the error of an entry behind which others stand, where the bucket does not say whether they follow from
// it.
var errPassed = fmt.Errorf("%w: it does not say whether a change was stored that others have come after",
	ErrUnavailable)

// write writes an entry. The error is ErrLost if another server has gone on from the one before. After ErrUnavailable,
// it may have been written or not; with errPassed this server no longer holds the record.
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
	// The entry may have been free because it was there, and was deleted with others that later ones replace.
	n, all, err := s.newest(name)
	if err != nil {
		return err
	}
	if n > e.n {
		next, err := s.read(name, e.n+1)
		switch {
		case err == nil && next.After == e.Write:
			return nil // others have gone on from it
		case err == nil:
			err = ErrLost
		case errors.Is(err, fs.ErrNotExist): // it has been deleted, perhaps before this entry came, perhaps after
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

// forget deletes all of a record that was removed long ago.
func (s *Store) forget(name string) {
	_, all, err := s.newest(name)
	for _, n := range all {
		err = errors.Join(err, s.Drop(entryName(name, n)))
	}
	if err == nil {
		_ = s.Drop(name + "/" + gone) // the next list tries again
	}
}
