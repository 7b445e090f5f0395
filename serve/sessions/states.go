package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// State describes a stored state: a signed session file that never changes, stored under its content hash.
type State struct {
	ID      string `json:"id"` // the content hash
	Object  string `json:"object"`
	Created int64  `json:"created_at"`
	Bytes   int64  `json:"bytes"`
	*StateContent
}

// StateContent is the content of a state's header. It is absent in lists.
type StateContent struct {
	Position int              `json:"position"`
	Drawn    int              `json:"drawn"`
	Text     string           `json:"text_sha256"`
	Identity session.Identity `json:"identity"`
	Signer   string           `json:"signer"`
}

func stateDir(owner string) string { return records.States + "/" + owner }

func stateName(owner, id string) string { return stateDir(owner) + "/" + id + statesEnding }

// isHash reports whether a text may be a content hash.
func isHash(id string) bool {
	return len(id) == 64 && strings.Trim(id, "0123456789abcdef") == ""
}

// noState is the error of a state that does not exist or belongs to another client.
func noState(id string) *request.Error {
	return &request.Error{
		Status: http.StatusNotFound, Code: "state_not_found",
		Message: fmt.Sprintf("found %.80q, which is no state that this server stores for this client", id),
	}
}

// stateRequest is the body of a request for the state of a session.
type stateRequest struct {
	Session string `json:"session"`
}

// CreateState stores the state of a session, signed by the server.
func (s *Handler) CreateState(c *request.Call) error {
	var q stateRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if q.Session == "" {
		return request.Invalid("session", "found none, want the id of a session")
	}
	c.Request.SetPathValue("id", q.Session)
	copied, err := s.copyOf(c)
	if err != nil {
		return err
	}
	x, err := s.storeState(c, copied, sessionMarks, "")
	if err != nil {
		return err
	}
	return c.JSON(x)
}

// PutState stores a state sent by a client.
func (s *Handler) PutState(c *request.Call) error {
	id := c.Request.PathValue("hash")
	if !isHash(id) {
		return request.Invalid("hash", "found %.80q, want 64 hexadecimal digits in lower case", id)
	}
	if n := c.Request.ContentLength; n > s.o.MaxImport {
		return s.tooLarge()
	} else if err := s.roomForState(c.Owner(), max(0, n), id, ""); err != nil {
		return err
	}
	if err := c.Enter(s.heavy); err != nil {
		return err
	}
	defer c.Leave(s.heavy)
	x, err := s.receiveState(c, id)
	if err != nil {
		return err
	}
	return c.JSON(x)
}

// storeState signs and stores the state of a session, with the given bytes of marks. It replaces the state with the id
// replaced, "" for none, whose space counts as free.
func (s *Handler) storeState(c *request.Call, x *session.Session, marks int, replaced string) (*State, error) {
	if err := c.Enter(s.heavy); err != nil {
		return nil, err
	}
	defer c.Leave(s.heavy)
	file, of, err := x.Signed(session.FileOptions{Marks: marks, Signer: s.o.Signer})
	if err != nil {
		return nil, err
	}
	s.store.Sweep()
	s.states.Lock()
	defer s.states.Unlock()
	if err := s.roomForState(c.Owner(), of.Bytes, of.Hash, replaced); err != nil {
		return nil, err
	}
	return s.stored(of, s.store.PutBytes(stateName(c.Owner(), of.Hash), file))
}

// atOnce is the most memory that is allocated for a state before its bytes have arrived.
const atOnce = 256 << 20

// receiveState stores the state that a request sends, if it has the given hash and a trusted signature.
func (s *Handler) receiveState(c *request.Call, id string) (*State, error) {
	s.store.Sweep()
	var x session.Checked
	unlock := func() {}
	defer func() { unlock() }()
	err := s.store.Put(stateName(c.Owner(), id), func(w io.Writer) error {
		if g, ok := w.(interface{ Grow(n int) }); ok {
			g.Grow(int(min(max(0, c.Request.ContentLength), atOnce)))
		}
		check := session.NewChecker()
		_, err := io.CopyBuffer(io.MultiWriter(w, check), s.body(c), make([]byte, 256<<10))
		if err == nil {
			x, err = check.Close()
		}
		if err == nil {
			err = s.trusts(x.Signer)
		}
		switch {
		case err != nil:
			return refused("state", err)
		case x.Hash != id:
			return &request.Error{Status: http.StatusBadRequest, Param: "hash", Code: "wrong_hash",
				Message: fmt.Sprintf("hash: found %s, want %s, the content hash of what was sent", id, x.Hash)}
		}
		s.states.Lock() // so that two states do not take the same space
		unlock = s.states.Unlock
		return s.roomForState(c.Owner(), x.Bytes, id)
	})
	return s.stored(x, err)
}

// stored returns the description of a stored state, or the error for the client.
func (s *Handler) stored(x session.Checked, err error) (*State, error) {
	var e *request.Error
	switch {
	case errors.As(err, &e):
		return nil, e
	case err != nil:
		return nil, s.failed("state", err)
	}
	return &State{ID: x.Hash, Object: "state", Created: request.Now(), Bytes: x.Bytes, StateContent: &StateContent{
		x.Position, x.Drawn, x.Text, x.Identity, x.Signer.String(),
	}}, nil
}

// GetState responds with the file of a state, or only with its headers.
func (s *Handler) GetState(c *request.Call) error {
	id := c.Request.PathValue("hash")
	if !isHash(id) {
		return noState(id)
	}
	r, n, err := s.store.Open(stateName(c.Owner(), id))
	if errors.Is(err, fs.ErrNotExist) {
		return noState(id)
	}
	if err != nil {
		return err
	}
	defer r.Close() // it was only read
	h := c.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(n, 10))
	h.Set("ETag", strconv.Quote(id))
	if c.Request.Method == http.MethodHead {
		c.WriteHeader(http.StatusOK)
		return nil
	}
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", id+statesEnding))
	_, err = io.CopyBuffer(struct{ io.Writer }{&slowly{c, time.Now().Add(exportTime)}}, struct{ io.Reader }{r},
		make([]byte, 64<<10))
	return err
}

// DeleteState removes a state.
func (s *Handler) DeleteState(c *request.Call) error {
	id := c.Request.PathValue("hash")
	if !isHash(id) {
		return noState(id)
	}
	r, _, err := s.store.Open(stateName(c.Owner(), id))
	if errors.Is(err, fs.ErrNotExist) {
		return noState(id)
	}
	if err == nil {
		r.Close()
		err = s.store.Remove(stateName(c.Owner(), id))
	}
	if err != nil {
		return err
	}
	return c.JSON(request.Deleted(id, "state.deleted"))
}

// ListStates responds with all states of the client, the most recently stored first.
func (s *Handler) ListStates(c *request.Call) error {
	all, err := s.statesOf(c.Owner())
	if err != nil {
		return err
	}
	list := struct {
		Object string  `json:"object"`
		Data   []State `json:"data"`
	}{Object: "list", Data: []State{}}
	for _, e := range all {
		list.Data = append(list.Data, State{ID: strings.TrimSuffix(e.Name, statesEnding), Object: "state",
			Created: e.Time.Unix(), Bytes: e.Bytes})
	}
	slices.SortFunc(list.Data, func(a, b State) int {
		return cmp.Or(cmp.Compare(b.Created, a.Created), cmp.Compare(a.ID, b.ID))
	})
	return c.JSON(list)
}

// statesOf returns the states of an owner, and removes expired ones.
func (s *Handler) statesOf(owner string) (all []records.Entry, err error) {
	entries, err := s.store.List(stateDir(owner))
	for _, e := range entries {
		if time.Since(e.Time) > s.o.KeepFor {
			if s.store.Remove(stateDir(owner)+"/"+e.Name) == nil { // else the next list tries again
				continue
			}
		}
		all = append(all, e)
	}
	return all, err
}

// roomForState returns an error if a state would exceed the limits of an owner. The replaced states do not count.
func (s *Handler) roomForState(owner string, bytes int64, replaced ...string) error {
	all, err := s.statesOf(owner)
	if err != nil {
		return err
	}
	var files []string
	for _, id := range replaced {
		files = append(files, id+statesEnding)
	}
	return s.room("state_limit", "states", all, bytes, files...)
}

// room returns an error if a record of the given size would exceed the limits of an owner, which are those of sessions.
// all are the owner's records of this kind. The replaced ones do not count.
func (s *Handler) room(code, kind string, all []records.Entry, bytes int64, replaced ...string) error {
	n := 1
	for _, e := range all {
		if !slices.Contains(replaced, e.Name) {
			n, bytes = n+1, bytes+e.Bytes
		}
	}
	if n > s.o.MaxSessions || bytes > s.o.MaxBytes {
		return &request.Error{Status: http.StatusForbidden, Code: code, Message: fmt.Sprintf(
			"found %d %s of this client with %d bytes, this one among them, want at most %d with %d: delete some",
			n, kind, bytes, s.o.MaxSessions, s.o.MaxBytes)}
	}
	return nil
}

// stateBytes returns the encoding of a stored state.
func (s *Handler) stateBytes(c *request.Call, id string) ([]byte, error) {
	if !isHash(id) {
		return nil, noState(id)
	}
	data, err := s.store.Get(stateName(c.Owner(), id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noState(id)
	}
	return data, err
}

// copyOf returns a copy of the session of a request. Other requests may use the session meanwhile.
func (s *Handler) copyOf(c *request.Call) (copied *session.Session, err error) {
	err = s.withSession(c, func(_ context.Context, h *inUse) error {
		copied = h.Fork()
		return nil
	})
	return copied, err
}
