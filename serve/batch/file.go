package batch

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// File describes a file.
type File struct {
	ID      string    `json:"id"`
	Owner   string    `json:"owner"`
	Name    string    `json:"name"` // as chosen by the client
	Purpose string    `json:"purpose"`
	Bytes   int64     `json:"bytes"`
	Created time.Time `json:"created"`
	// Of is the batch that the file belongs to, "" for none. Such a file is not listed, and is removed with the batch.
	Of string `json:"of,omitempty"`
}

// The purposes of files.
const (
	PurposeBatch  = "batch"        // sent by a client
	PurposeOutput = "batch_output" // written by a batch
)

const filePrefix = "file-"

// maxName is the maximum length in bytes of a stored file name.
const maxName = 255

// cleanName returns a name without unprintable characters.
func cleanName(name string) string {
	name = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '_'
		}
		return c
	}, strings.ToValidUTF8(name, "_"))
	for len(name) > maxName {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	return name
}

// AddFile stores the data written by fill as a file of an owner. fill returns the file's name for users. If fill fails,
// no file is stored.
func (s *Store) AddFile(owner string, fill func(io.Writer) (name string, err error)) (File, error) {
	return s.addFile(owner, "", s.o.MaxFile, fill)
}

// addFile is AddFile with a limit of most bytes, 0 for none. The file belongs to the batch of, unless of is "".
func (s *Store) addFile(owner, of string, most int64, fill func(io.Writer) (string, error)) (File, error) {
	if err := s.refresh(); err != nil {
		return File{}, err
	}
	s.mu.Lock()
	n := 0
	for _, f := range s.files {
		if f.Owner == owner {
			n++
		}
	}
	s.mu.Unlock()
	if n >= s.o.MaxFiles {
		return File{}, because(ErrLimit, "found %d files, as many as you may have: delete some", n)
	}
	f := File{ID: filePrefix + rand.Text(), Owner: owner, Purpose: PurposeBatch, Of: of}
	err := s.keep(&f, most, func(w io.Writer) (err error) {
		f.Name, err = fill(w)
		return err
	})
	return f, err
}

// keep writes a file.
func (s *Store) keep(f *File, most int64, fill func(io.Writer) error) error {
	m := &metered{s: s, owner: f.Owner, most: most}
	f.Created = time.Now()
	var filled error
	err := s.vault.write(f.ID+content, func(w io.Writer) error {
		m.w = w
		filled = fill(m)
		return filled
	})
	if filled != nil {
		err = filled // without the path of the server's file
	}
	f.Bytes, f.Name = m.n, cleanName(f.Name)
	if err == nil {
		if err = s.describe(f.ID, f); err != nil {
			err = errors.Join(err, s.vault.remove(f.ID+content))
		}
	}
	if err != nil {
		s.refund(f.Owner, m.n)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[f.ID] != nil { // refresh has counted the file meanwhile
		s.refunded(f.Owner, m.n)
	}
	kept := *f
	s.files[f.ID] = &kept
	return nil
}

// metered counts the written bytes and charges its owner for them.
type metered struct {
	s     *Store
	w     io.Writer
	owner string
	n     int64
	most  int64 // 0 for no limit
}

func (m *metered) Write(p []byte) (int, error) {
	if m.most > 0 && m.n+int64(len(p)) > m.most {
		return 0, because(ErrLimit, "file: found more than %d bytes", m.most)
	}
	if err := m.s.charge(m.owner, int64(len(p))); err != nil {
		return 0, err
	}
	m.n += int64(len(p))
	return m.w.Write(p)
}

// File returns an owner's file.
func (s *Store) File(owner, id string) (File, error) {
	if err := s.look(id, true); err != nil {
		return File{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[id]
	if f == nil || f.Owner != owner {
		return File{}, fmt.Errorf("file %.60q: %w", id, ErrNotFound)
	}
	return *f, nil
}

// Files returns a page of an owner's files and whether more follow. purpose selects files of a purpose; "" is any.
func (s *Store) Files(owner, purpose string, p Page) ([]File, bool, error) {
	if err := s.refresh(); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return paged(s.files, p, func(f *File) bool {
		return f.Owner == owner && f.Of == "" && (purpose == "" || f.Purpose == purpose)
	}, func(f *File) (time.Time, string) { return f.Created, f.ID })
}

// OpenFile opens the content of an owner's file.
func (s *Store) OpenFile(owner, id string) (File, io.ReadCloser, error) {
	f, err := s.File(owner, id)
	if err != nil {
		return f, nil, err
	}
	r, err := s.vault.open(id + content)
	if gone(err) { // the file has just been deleted
		err = fmt.Errorf("file %.60q: %w", id, ErrNotFound)
	}
	return f, r, err
}

// DeleteFile removes an owner's file. It returns an error if an unfinished batch reads the file.
func (s *Store) DeleteFile(owner, id string) error {
	if err := s.refresh(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[id]
	if f == nil || f.Owner != owner {
		return fmt.Errorf("file %.60q: %w", id, ErrNotFound)
	}
	for _, b := range s.batches {
		if b.Input == id && !b.Status.ended() {
			return because(ErrInUse, "file %s: %s reads it: cancel that first", id, b.ID)
		}
	}
	return s.drop(f)
}

// drop removes a file. mu must be held.
func (s *Store) drop(f *File) error {
	// Without a description the content is removed at the next start.
	if err := s.vault.remove(f.ID + described); err != nil {
		return err
	}
	delete(s.files, f.ID)
	s.refunded(f.Owner, f.Bytes)
	return s.vault.remove(f.ID + content)
}
