package records

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// A record is a line of JSON and one with its SHA-256, so that a bit that has flipped is seen.

// ErrDamaged is the error of a record that is not as it was written.
var ErrDamaged = errors.New("the record is damaged")

// Put puts a value on a shelf, and returns its bytes.
func Put(to Backend, name string, v any) (bytes int64, err error) {
	data, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	err = to.Put(name, func(w io.Writer) error {
		n, err := fmt.Fprintf(w, "%s\n%s\n", data, sum(data))
		bytes = int64(n)
		return err
	})
	return bytes, err
}

// Get reads what putRecord has put there.
func Get(from Backend, name string, into any) error {
	all, err := from.Get(name)
	if err != nil {
		return err
	}
	data, check, ok := bytes.Cut(all, []byte{'\n'})
	if !ok || string(check) != sum(data)+"\n" {
		return fmt.Errorf("%s: %s: %w", from, name, ErrDamaged)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %s: %w: %w", from, name, ErrDamaged, err)
	}
	return nil
}

// sum is the checksum of a record.
func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// Store are a shelf whose old records are removed from time to time.
type Store struct {
	Backend
	log   *slog.Logger
	swept atomic.Int64 // when old records were last looked for, in nanoseconds
	kinds []kind
}

// kind is a kind of records, and what removes those of an owner that are too old.
type kind struct {
	name string
	trim func(owner string) error
}

// New returns the records of a folder, or, where that is "", of so many bytes of memory.
func New(dir string, memory int64, log *slog.Logger) *Store {
	return &Store{Backend: newBackend(dir, memory), log: log}
}

// OnSweep adds a kind of records to those that sweep looks at. It is for the start, before any sweep.
func (s *Store) OnSweep(name string, trim func(owner string) error) {
	s.kinds = append(s.kinds, kind{name, trim})
}

// sweepEvery is how often old records are looked for, while others are made.
const sweepEvery = time.Hour

// Sweep removes what is too old, of all owners.
func (s *Store) Sweep() {
	last, at := s.swept.Load(), time.Now().UnixNano()
	if at-last < int64(sweepEvery) || !s.swept.CompareAndSwap(last, at) {
		return
	}
	for _, k := range s.kinds {
		owners, err := s.owners(k.name)
		for _, owner := range owners {
			err = errors.Join(err, k.trim(owner))
		}
		if err != nil {
			s.log.Warn("what is too old could not be removed", "error", err.Error())
		}
	}
}

// asideEnding is the ending of what is damaged, and kept for a while to be looked at.
const asideEnding = ".damaged"

// SetAside puts what is damaged under another name, and removes it under its own.
func SetAside(on Backend, name string) error {
	data, err := on.Get(name)
	if err != nil {
		return err
	}
	err = on.Put(name+asideEnding, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	return errors.Join(err, on.Remove(name))
}
