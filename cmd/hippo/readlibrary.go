package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/session"
)

// readLibrary holds the flags of hippo read for libraries.
type readLibrary struct{ dir, name string }

// maxLibraryText is the maximum size of a file that is read into a library.
const maxLibraryText = 256 << 20

// run reads files into the library, each as its own text or all as one text.
func (l *readLibrary) run(cmd *cobra.Command, name string, files []string, r *session.FileReader,
	load ...hippo.LoadOption) error {
	folder, err := session.OpenFolder(l.dir)
	if err != nil {
		return err
	}
	var names, texts []string
	for _, path := range files {
		text, err := disk.ReadText(path, maxLibraryText)
		if err != nil {
			return err
		}
		if !utf8.Valid(text) {
			return fmt.Errorf("%s: found bytes that are no UTF-8, want a text", path)
		}
		base := filepath.Base(path)
		names, texts = append(names, strings.TrimSuffix(base, filepath.Ext(base))), append(texts, string(text))
	}
	if l.name != "" {
		names, texts = []string{l.name}, []string{strings.Join(texts, "\n\n")}
	}
	m, err := loadModel(name, "", load...)
	if err != nil {
		return err
	}
	settings, err := chat.Load(m.Dir(), m.Tokenizer())
	if err != nil {
		return err
	}
	of := &host.Model{ModelOptions: host.ModelOptions{
		Name: name, Net: m.Net(), Tokenizer: m.Tokenizer(), Settings: settings,
	}}
	for i, text := range texts {
		if err := readText(cmd, folder, m, of, names[i], text, r); err != nil {
			return err
		}
	}
	return nil
}

// readText reads a text into a library. It does not read a part again that an earlier call has read.
func readText(cmd *cobra.Command, folder session.Folder, m *hippo.Model, of *host.Model, name, text string,
	r *session.FileReader) (err error) {
	path, err := folder.TextPath(name)
	if err != nil {
		return err
	}
	ids, err := reply.MountIDs(cmd.Context(), of, text)
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("found %d bytes, want more than a chunk of %d tokens: a shorter text is read in no time",
			len(text), session.Chunk(m.Net()))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	lock, err := folder.Lock(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	s, err := m.LoadSession(lock.Path, nil)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", lock.Path, err)
	}
	if s == nil || s.Position() > len(ids) || !slices.Equal(s.Whole().IDs(), ids[:s.Position()]) {
		s = m.OpenSession(0)
		if err := os.Remove(lock.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := disk.WriteBytes(path, []byte(text)); err != nil {
		return err
	}
	if s.Position() == len(ids) {
		fmt.Fprintf(os.Stderr, "%s has been read\n", name)
		return nil
	}
	own, err := ownSigner()
	if err != nil {
		return err
	}
	p := newProgress("reading")
	defer p.close()
	r.Session, r.Progress = s.Whole(), p.update
	r.Save = func() error { return s.Save(lock.Path, hippo.SaveOptions{Signer: own}) }
	err = r.ReadIDs(cmd.Context(), ids, 0)
	if s.Position() > 0 { // save also after an error
		err = errors.Join(err, r.Save())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d tokens in %s\n", name, len(ids), lock.Path)
	return err
}
