package sessions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// Library is a folder of texts that clients can mount: see session.Folder.Texts.
type Library struct {
	Folder session.Folder
	Keys   []string // names of the keys that may mount them; nil for all
}

// allows reports whether the client of a key may mount the texts.
func (l *Library) allows(key string) bool { return l.Keys == nil || slices.Contains(l.Keys, key) }

// list returns descriptions of the texts.
func (l *Library) list() (all []Text, err error) {
	names, err := l.Folder.Texts()
	for _, name := range names {
		x := Text{ID: name, Object: "text", Owner: serverText}
		path, err := l.Folder.TextPath(name)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err != nil { // it has just been removed
			continue
		}
		x.Created, x.Bytes = info.ModTime().Unix(), info.Size()
		if path, err = l.Folder.Path(name); err == nil {
			if of, err := session.Inspect(path, nil); err == nil {
				x.Tokens = of.Position
			}
		}
		all = append(all, x)
	}
	return all, err
}

// mounted returns a text of the server, with its state if the text has been read. The error is fs.ErrNotExist if the
// text does not exist.
func (s *Handler) mounted(ctx context.Context, l Library, m *host.Model, name string) (x host.Mounted, err error) {
	path, err := l.Folder.TextPath(name)
	if err != nil {
		return x, fs.ErrNotExist
	}
	content, err := disk.ReadText(path, s.o.MaxImport)
	if err != nil {
		return x, err
	}
	x = host.Mounted{Name: name, Text: request.Text(content)}
	file, err := l.Folder.Path(name)
	if err != nil {
		return x, err
	}
	revision, err := revisionOf(path, file)
	if errors.Is(err, fs.ErrNotExist) { // nobody has read it
		return x, nil
	}
	if err != nil {
		return x, err
	}
	of, err := s.stateOf(m, file, revision, func() (*session.Session, error) {
		checked, of, err := s.loadText(ctx, file, m, x.Text)
		if err == nil {
			s.hashes.Store(revision, checked.Hash)
		}
		return of, err
	})
	if err != nil {
		return x, ofText(name, m, err)
	}
	hash, _ := s.hashes.Load(revision)
	x.IDs, x.At, x.Hash = of.IDs(), of.Snapshot(), hash.(string)
	return x, nil
}

// revisionOf returns a text that changes whenever one of the files changes.
func revisionOf(paths ...string) (text string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		text += fmt.Sprint(path, " ", info.Size(), " ", info.ModTime().UnixNano(), " ")
	}
	return text, nil
}

// errChanged is the error of a text that has changed since it was read.
var errChanged = errors.New("the text, or the model's chat template, has changed since it was read")

// loadText reads and checks the state of a text of the server.
func (s *Handler) loadText(ctx context.Context, path string, m *host.Model, text string) (x session.Checked,
	of *session.Session, err error) {
	data, err := disk.ReadText(path, max(s.o.MaxImport, s.o.MaxBytes))
	if err != nil {
		return x, nil, err
	}
	if x, err = session.CheckBytes(data); err == nil {
		err = s.trusts(x.Signer)
	}
	if err == nil {
		of, err = decodeSession(data, m, "")
	}
	if err == nil {
		err = of.CheckFinite()
	}
	if err != nil {
		return x, nil, err
	}
	ids, err := reply.MountIDs(ctx, m, text)
	if err != nil {
		return x, nil, err
	}
	own := of.IDs()
	switch {
	case x.Rounded || x.Drawn > 0 || of.Snapshot().Position != len(own) || len(own)%of.Chunk() != 0:
		err = fmt.Errorf("%w: found a session that hippo read --library has not made", session.ErrDamaged)
	case len(own) > len(ids) || !slices.Equal(own, ids[:len(own)]):
		err = errChanged
	}
	return x, of, err
}

// ofText returns the response to a request for a text of the server whose state cannot be used.
func ofText(name string, m *host.Model, err error) error {
	if errors.Is(err, errChanged) {
		return &request.Error{Status: http.StatusConflict, Code: "text_changed", Param: "mount",
			Message: fmt.Sprintf("mount: %s: %v: hippo read --library reads it again", name, err)}
	}
	var e *request.Error
	if errors.As(refused("state of the text "+name+" for the model "+m.Name, err), &e) {
		e.Param, e.Status = "mount", http.StatusConflict
		e.Message = "mount: " + e.Message
		return e
	}
	return err
}
