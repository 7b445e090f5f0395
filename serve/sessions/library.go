package sessions

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// Text describes a text of a library. It is read once, and requests mount it by name.
type Text struct {
	ID      string `json:"id"` // the name
	Object  string `json:"object"`
	Owner   string `json:"owner"` // ownText or serverText
	Created int64  `json:"created_at"`
	Bytes   int64  `json:"bytes"`
	Tokens  int    `json:"tokens"` // before the state
	Model   string `json:"model,omitempty"`
	State   string `json:"state,omitempty"` // the content hash of its file
}

// Owners of a text: the key of a request, or the operator of the server.
const (
	ownText    = "key"
	serverText = "server"
)

// textRecord is a text stored by a client. Its state is one of the client's states.
type textRecord struct {
	Text
	Identity string `json:"identity"`
	Content  string `json:"content"`
}

func textDir(owner string) string { return records.Library + "/" + owner }

func textName(owner, name string) string { return textDir(owner) + "/" + textFile(name) }

// textFile returns the name of a record in its folder. It is a hash, since the client chose the name of the text.
func textFile(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:12]) + recordEnding
}

// checkTextName returns an error if the name of a text is invalid.
func checkTextName(name string) error {
	if _, err := (session.Folder{}).Path(name); err != nil {
		return request.Invalid("name", "%s", strings.TrimPrefix(err.Error(), "session: "))
	}
	return nil
}

// noText returns the error of a text that does not exist, or that the client may not see.
func noText(param, name string) *request.Error {
	return &request.Error{
		Status: http.StatusNotFound, Code: "text_not_found", Param: param,
		Message: fmt.Sprintf("%s: found %.100q, which is no text of a library for this client", param, name),
	}
}

// newText is the body of PUT /v1/library/{name}.
type newText struct {
	Model string `json:"model"`
	Text  string `json:"text"`
}

// PutText reads a text into the library of a client, and stores the state after it.
func (s *Handler) PutText(c *request.Call) error {
	var q newText
	if err := c.Read(&q); err != nil {
		return err
	}
	name := c.Request.PathValue("name")
	if err := checkTextName(name); err != nil {
		return err
	}
	m, err := s.Host.Model(c, q.Model)
	if err != nil {
		return err
	}
	c.Note("model", m.Name)
	all, err := s.store.List(textDir(c.Owner()))
	if err != nil {
		return err
	}
	if err := s.room("library_limit", "texts", all, int64(len(q.Text)), textFile(name)); err != nil {
		return err
	}
	x, err := s.readText(c, m, q.Text)
	if err != nil {
		return err
	}
	var old textRecord
	_ = records.Get(s.store, textName(c.Owner(), name), &old) // a damaged record is replaced
	state, err := s.storeState(c, x, 0, old.State)
	if err != nil {
		return err
	}
	r := textRecord{Identity: m.Identity(), Content: q.Text, Text: Text{
		ID: name, Object: "text", Owner: ownText, Created: request.Now(), Bytes: int64(len(q.Text)),
		Tokens: state.Position, Model: m.Name, State: state.ID,
	}}
	if _, err := records.Put(s.store, textName(c.Owner(), name), &r); err != nil {
		_ = s.store.Remove(stateName(c.Owner(), state.ID)) // on failure, the state is removed with other old states
		return s.failed("text", err)
	}
	if isHash(old.State) {
		_ = s.store.Remove(stateName(c.Owner(), old.State)) // same
	}
	return c.JSON(&r.Text)
}

// readText reads a text up to the last position whose state can be used, whatever follows the text.
func (s *Handler) readText(c *request.Call, m *host.Model, text string) (*session.Session, error) {
	if err := c.Allowance.HasTokens(); err != nil {
		return nil, err
	}
	if err := c.Enter(s.Admit); err != nil {
		return nil, err
	}
	defer c.Leave(s.Admit)
	ids, err := reply.MountIDs(c.Request.Context(), m, text)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, request.Invalid("text", "found %d bytes, want more than a chunk of %d tokens: send a shorter text "+
			"with each request", len(text), session.Chunk(m.Net))
	}
	if err := m.Check("text", ids, s.Limits.MaxPrompt, 0); err != nil {
		return nil, err
	}
	plan := []session.Segment{{IDs: ids}}
	gen, found, err := m.Open(c.Request.Context(), plan, c.Client())
	if err != nil {
		return nil, err
	}
	found.SetHeader(c.Header(), len(ids))
	c.Note("prompt_tokens", len(ids))
	return session.From(m.Net, m.Tokenizer, sessionOptions(m, c.Client()),
		session.Text{Plan: plan, At: session.Take(gen)})
}

// ListTexts responds with the texts that the client may mount: its own and those of the server.
func (s *Handler) ListTexts(c *request.Call) error {
	list := struct {
		Object string `json:"object"`
		Data   []Text `json:"data"`
	}{Object: "list", Data: []Text{}}
	all, err := s.store.List(textDir(c.Owner()))
	if err != nil {
		return err
	}
	for _, e := range all {
		var r struct{ Text } // without the content
		if records.Get(s.store, textDir(c.Owner())+"/"+e.Name, &r) == nil {
			list.Data = append(list.Data, r.Text)
		}
	}
	slices.SortFunc(list.Data, func(a, b Text) int { return strings.Compare(a.ID, b.ID) })
	for _, l := range s.o.Libraries {
		if l.allows(c.Key) {
			more, err := l.list()
			if err != nil {
				return err
			}
			list.Data = append(list.Data, more...)
		}
	}
	return c.JSON(list)
}

// DeleteText removes a text of the client, and its state.
func (s *Handler) DeleteText(c *request.Call) error {
	name := c.Request.PathValue("name")
	var r textRecord
	err := records.Get(s.store, textName(c.Owner(), name), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return noText("name", name)
	}
	if err == nil || errors.Is(err, records.ErrDamaged) {
		err = s.store.Remove(textName(c.Owner(), name))
	}
	if err == nil && isHash(r.State) {
		err = s.store.Remove(stateName(c.Owner(), r.State))
	}
	if err != nil {
		return err
	}
	return c.JSON(request.Deleted(name, "text.deleted"))
}

// Mount returns texts for a model, with their states. For each name, it prefers the client's own text to the server's.
func (s *Handler) Mount(c *request.Call, m *host.Model, names []string) (all []host.Mounted, err error) {
	bytes := int64(0)
	for _, name := range names {
		x, err := s.ownMounted(c, m, name)
		for _, l := range s.o.Libraries {
			if errors.Is(err, fs.ErrNotExist) && l.allows(c.Key) {
				x, err = s.mounted(c.Request.Context(), l, m, name)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, noText("mount", name)
		}
		if err != nil {
			return nil, err
		}
		if bytes += int64(len(x.Text)); bytes > c.Env.MaxBody {
			return nil, request.Invalid("mount", "found texts of %d bytes, want at most %d, the limit of a body", bytes,
				c.Env.MaxBody)
		}
		all = append(all, x)
	}
	return all, nil
}

// stateOf returns the session of a text from a model's cache, or loads it. It loads one at a time, since states may be
// large.
func (s *Handler) stateOf(m *host.Model, id, revision string, load func() (*session.Session, error)) (
	of *session.Session, err error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	if of = m.Sessions.Get(id, revision); of != nil {
		return of, nil
	}
	if of, err = load(); err == nil {
		m.Sessions.Put(&host.CachedSession{ID: id, Revision: revision, Session: of})
	}
	return of, err
}

// ownMounted returns a text of the client. If its state has expired, the text is read again.
func (s *Handler) ownMounted(c *request.Call, m *host.Model, name string) (x host.Mounted, err error) {
	var r textRecord
	if err := records.Get(s.store, textName(c.Owner(), name), &r); err != nil {
		return x, err
	}
	if !m.HasIdentity(r.Identity) {
		return x, &request.Error{Status: http.StatusConflict, Code: "other_model", Param: "mount", Message: fmt.Sprintf(
			"mount: the text %s was read by a model %s that had other weights, another precision or another tokenizer "+
				"than %s: send it again", name, r.Model, m.Name)}
	}
	x = host.Mounted{Name: name, Text: r.Content, Hash: r.State}
	of, err := s.stateOf(m, "text "+c.Owner()+" "+name, r.State, func() (*session.Session, error) {
		data, err := s.stateBytes(c, r.State)
		if err != nil {
			return nil, err
		}
		return decodeSession(data, m, "")
	})
	if err != nil {
		s.o.Log.Warn("the state of a text is lost: it is read again", "request", c.ID, "error", err.Error())
		return x, nil
	}
	x.IDs, x.At = of.IDs(), of.Snapshot()
	return x, nil
}
