package records

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hippo-ssm/hippo/serve/fleet"
)

// A record is a line of JSON followed by a line with its SHA-256, which detects flipped bits.

// ErrDamaged is the error of a record whose checksum does not match.
var ErrDamaged = errors.New("the record is damaged")

// Put writes a value to a backend and returns its encoding.
func Put(to Backend, name string, v any) (bytes int64, err error) {
	data, err := encode(v)
	if err != nil {
		return 0, err
	}
	return int64(len(data)), to.PutBytes(name, data)
}

func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(data, "\n%s\n", sum(data)), nil
}

// Get reads a value that Put has written.
func Get(from Backend, name string, into any) error {
	all, err := from.Get(name)
	if err != nil {
		return err
	}
	return decode(from, name, all, into)
}

// Overrule changes a record even if another server has its lock. That server loses the lock. The error is ErrLocked if
// the backend cannot do this. Overrule may call by several times.
func Overrule[T any](on Backend, name string, by func(*T)) error {
	return on.overrule(name, func(data []byte) ([]byte, error) {
		v := new(T)
		if err := decode(on, name, data, v); err != nil {
			return nil, err
		}
		by(v)
		return encode(v)
	})
}

func decode(from Backend, name string, all []byte, into any) error {
	data, check, ok := bytes.Cut(all, []byte{'\n'})
	if !ok || string(check) != sum(data)+"\n" {
		return fmt.Errorf("%s: %s: %w", from, name, ErrDamaged)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %s: %w: %w", from, name, ErrDamaged, err)
	}
	return nil
}

// sum returns the checksum of a record.
func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// Store is a backend from which old records are removed from time to time.
type Store struct {
	Backend
	log   *slog.Logger
	swept atomic.Int64 // time of the last sweep, in nanoseconds
	kinds []kind
}

// kind is a kind of records with the function that removes the old ones of an owner.
type kind struct {
	name string
	trim func(owner string) error
}

// New returns a store in a folder or, if dir is "", one in memory with the given limit in bytes.
func New(dir string, memory int64, log *slog.Logger) *Store {
	return &Store{Backend: newBackend(dir, memory), log: log}
}

// Shared returns the store of servers that share a bucket.
func Shared(in *fleet.Store, log *slog.Logger) *Store { return &Store{Backend: shared{in}, log: log} }

// OnSweep adds a kind of records to sweeps. Call it before the first sweep.
func (s *Store) OnSweep(name string, trim func(owner string) error) {
	s.kinds = append(s.kinds, kind{name, trim})
}

// sweepEvery is the time between sweeps. Adding a record starts one.
const sweepEvery = time.Hour

// Sweep removes the expired records of all owners.
func (s *Store) Sweep() {
	last, at := s.swept.Load(), time.Now().UnixNano()
	if at-last < int64(sweepEvery) || !s.swept.CompareAndSwap(last, at) {
		return
	}
	if s.Strict() { // a bucket may have a long list; the request does not wait for it
		go s.sweep()
	} else {
		s.sweep()
	}
}

func (s *Store) sweep() {
	for _, k := range s.kinds {
		owners, err := s.owners(k.name)
		for _, owner := range owners {
			err = errors.Join(err, k.trim(owner))
		}
		if err != nil {
			s.log.Warn("expired records could not be removed", "error", err.Error())
		}
	}
}

// asideEnding is the ending of the names of quarantined records.
const asideEnding = ".damaged"

// SetAside quarantines a damaged record by renaming it.
func SetAside(on Backend, name string) error {
	data, err := on.Get(name)
	if err != nil {
		return err
	}
	return errors.Join(on.PutBytes(name+asideEnding, data), on.Remove(name))
}
