package records

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/hippo-ssm/hippo/serve/fleet"
)

// shared is a backend in a bucket, which any number of servers on any machines may share.
type shared struct{ in *fleet.Store }

// Background is the prefix of ids of background responses. No other id begins with it, since rand.Text has no digit 0.
const Background = "resp_0"

// changes reports whether a record may change, under a lock, after it was first written. All others are written once.
func changes(name string) bool {
	id, ok := strings.CutSuffix(path.Base(name), ".json")
	return ok && (IsID(SessionPrefix, id) || IsID(ConversationPrefix, id) || IsID(Background, id))
}

func (s shared) String() string { return s.in.String() }

func (shared) Strict() bool { return true }

func (s shared) Get(name string) ([]byte, error) {
	if changes(name) {
		return s.in.Get(name)
	}
	return s.in.Read(name)
}

func (s shared) Open(name string) (io.ReadCloser, int64, error) {
	data, err := s.Get(name)
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), err
}

func (s shared) Put(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return s.PutBytes(name, b.Bytes())
}

func (s shared) PutBytes(name string, data []byte) error {
	switch {
	case strings.HasPrefix(path.Base(name), Background):
		return s.in.Keep(name, data) // it is put several times, and locked until the response has ended
	case changes(name):
		return s.in.Put(name, data)
	}
	return s.in.Write(name, data)
}

func (s shared) Remove(name string) error {
	if changes(name) {
		return s.in.Remove(name)
	}
	return s.in.Drop(name)
}

func (s shared) List(dir string) ([]Entry, error) {
	found, err := s.in.List(dir)
	all := make([]Entry, len(found))
	for i, e := range found {
		all[i] = Entry(e)
	}
	return all, err
}

func (s shared) owners(kind string) ([]string, error) { return s.in.Folders(kind) }

func (s shared) overrule(name string, by func(data []byte) ([]byte, error)) error {
	return s.in.Change(name, by)
}

func (s shared) Lock(name string) (Hold, error) {
	l, err := s.in.Lock(name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the request will notice
		return Hold{Release: func() {}}, nil
	case errors.Is(err, fleet.ErrHeld):
		return Hold{}, ErrLocked
	case err != nil:
		return Hold{}, err
	}
	return Hold{l.Release, l.Lost()}, nil
}
