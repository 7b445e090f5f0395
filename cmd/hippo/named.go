package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/session"
)

// sessionsFlags holds the flags of commands that use named sessions.
type sessionsFlags struct{ store, key string }

func (f *sessionsFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.store, "store", "",
		"folder of sessions (default: HIPPO_SESSIONS, or hippo/sessions in the user's folder of data)")
	cmd.Flags().StringVar(&f.key, "key", "", "file of at least 16 random bytes that encrypts sessions")
}

// open returns the folder of sessions and the key, or nil if there is no key.
func (f *sessionsFlags) open() (session.Folder, []byte, error) {
	folder, err := session.OpenFolder(f.store)
	if err != nil || f.key == "" {
		return folder, nil, err
	}
	key, err := os.ReadFile(f.key)
	if err == nil && len(key) == 0 {
		err = fmt.Errorf("%s: found an empty file, want a key", f.key)
	}
	return folder, key, err
}

// sessionMarks is the maximum size in bytes of the stored states of a named session, in memory and in its file.
const sessionMarks = 32 << 20

// named is a named session that this process has locked.
type named struct {
	*hippo.Session
	lock *session.Lock
	key  []byte
}

// take locks and opens the session with a name, or creates it with a chunk size. give releases it.
func (f *sessionsFlags) take(m *hippo.Model, name string, chunk int) (n *named, err error) {
	folder, key, err := f.open()
	if err != nil {
		return nil, err
	}
	n = &named{key: key}
	if n.lock, err = folder.Lock(name); err != nil {
		return nil, err
	}
	if !n.lock.Exists() {
		n.Session = m.OpenSession(chunk)
	} else if n.Session, err = m.LoadSession(n.lock.Path, key); err != nil {
		return nil, errors.Join(err, n.lock.Release())
	}
	n.SetMarks(sessionMarks)
	return n, nil
}

func (n *named) save() error {
	return n.Save(n.lock.Path, hippo.SaveOptions{Marks: sessionMarks, Key: n.key})
}

// give saves the session, also after an error, and releases its lock.
func (n *named) give(err error) error {
	if n.Position() > 0 {
		err = errors.Join(err, n.save())
	}
	return errors.Join(err, n.lock.Release())
}

// reply reads a prompt and calls emit with each piece of the reply. Without a prompt it continues an interrupted reply.
func (n *named) reply(ctx context.Context, prompt string, opt hippo.Options, emit func(generate.Piece) error) error {
	s := n.Whole()
	pieces := s.Continue(ctx)
	if prompt != "" || !s.Unfinished() {
		if err := n.Append(ctx, prompt); err != nil {
			return err
		}
		pieces = s.Generate(ctx, opt)
	}
	for piece, err := range pieces {
		if err == nil {
			err = emit(piece)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
