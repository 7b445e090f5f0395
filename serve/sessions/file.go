package sessions

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// exportTime is the maximum time in which a client receives a session.
const exportTime = 10 * time.Minute

// Export responds with the session as a file signed by the server. Other requests may use the session meanwhile.
func (s *Handler) Export(c *request.Call) error {
	copied, err := s.copyOf(c)
	if err != nil {
		return err
	}
	if err := c.Enter(s.heavy); err != nil {
		return err
	}
	defer c.Leave(s.heavy)
	c.Header().Set("Content-Type", "application/octet-stream")
	c.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q",
		c.Request.PathValue("id")+statesEnding))
	return copied.Encode(&slowly{c, time.Now().Add(exportTime)},
		session.FileOptions{Marks: sessionMarks, Signer: s.o.Signer})
}

// slowly writes to a client that may be slow, up to a time limit.
type slowly struct {
	*request.Call
	until time.Time
}

func (w *slowly) Write(p []byte) (int, error) {
	if time.Now().After(w.until) {
		return 0, request.ErrSlow
	}
	if err := w.Call.Deliver(p); err != nil {
		return 0, &request.Error{Status: request.StatusGone, Message: fmt.Sprintf("the client does not read: %v", err)}
	}
	return len(p), nil
}

// Import creates a session from a file.
func (s *Handler) Import(c *request.Call) error {
	return s.adopt(c, c.Query("model"), nil, func() ([]byte, error) { return io.ReadAll(s.body(c)) })
}

// body returns the file that a request sends. Its errors are response errors.
func (s *Handler) body(c *request.Call) io.Reader {
	return &arriving{http.MaxBytesReader(c.Writer, c.Request.Body, s.o.MaxImport), s, c}
}

type arriving struct {
	io.Reader
	s *Handler
	c *request.Call
}

func (r *arriving) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil || err == io.EOF:
	case errors.As(err, &tooLarge):
		err = r.s.tooLarge()
	default:
		r.c.Header().Set("Connection", "close")
		err = &request.Error{Status: http.StatusRequestTimeout, Message: "the session did not arrive whole"}
	}
	return n, err
}

func (s *Handler) tooLarge() error {
	return &request.Error{
		Status: http.StatusRequestEntityTooLarge, Code: "request_too_large",
		Message: fmt.Sprintf("the session has more than %d bytes, the limit of this server", s.o.MaxImport),
	}
}

// adopt creates a session of a model from the contents of a file, which may come from anyone.
func (s *Handler) adopt(c *request.Call, model string, metadata map[string]string, read func() ([]byte, error)) error {
	m, err := s.Host.Model(c, model)
	if err != nil {
		return err
	}
	c.Note("model", m.Name)
	if err := s.roomForSession(c.Owner(), 1); err != nil {
		return err
	}
	if err := c.Enter(s.heavy); err != nil {
		return err
	}
	defer c.Leave(s.heavy)
	data, err := read()
	if err != nil {
		return err
	}
	checked, err := session.CheckBytes(data)
	if err == nil {
		err = s.trusts(checked.Signer)
	}
	var x *session.Session
	if err == nil {
		x, err = decodeSession(data, m, c.Client())
	}
	if err == nil {
		err = x.CheckFinite()
	}
	if err != nil {
		return refused("session for the model "+m.Name, err)
	}
	if n := x.Position(); n > s.Limits.MaxPrompt {
		return request.Invalid("session", "found a text of %d tokens, want at most %d, the limit of this server", n,
			s.Limits.MaxPrompt)
	}
	if n := len(x.Marks()); n > maxMarks {
		return request.Invalid("session", "found %d marks, want at most %d", n, maxMarks)
	}
	o, err := s.addSession(c, m, x, metadata, nil, data)
	if err != nil {
		return err
	}
	return c.JSON(o)
}

// trusts returns an error unless a file was signed by the server's own key or by a key that it trusts.
func (s *Handler) trusts(by session.PublicKey) error {
	if s.o.Trust.Check(by) == nil {
		return nil
	}
	own, err := s.o.Signer.Public()
	if err != nil {
		return err
	}
	return append(session.Trust{own}, s.o.Trust...).Check(by)
}

// refusals are the codes for the reasons to refuse a file.
var refusals = []struct {
	err    error
	status int
	code   string
}{
	{session.ErrPrecision, http.StatusBadRequest, "other_precision"},
	{session.ErrModel, http.StatusBadRequest, "other_model"},
	{session.ErrTokenizer, http.StatusBadRequest, "other_tokenizer"},
	{session.ErrKernels, http.StatusBadRequest, "other_kernels"},
	{session.ErrVersion, http.StatusBadRequest, "newer_version"},
	{session.ErrKey, http.StatusBadRequest, "encrypted"},
	{session.ErrSignature, http.StatusBadRequest, "wrong_signature"},
	{session.ErrUnsigned, http.StatusForbidden, "unsigned"},
	{session.ErrUntrusted, http.StatusForbidden, "untrusted_key"},
	{session.ErrDamaged, http.StatusBadRequest, "damaged"},
	{nil, http.StatusBadRequest, "invalid_session"},
}

// refused returns the response to a refused file, unless the error is already a response.
func refused(what string, err error) error {
	var e *request.Error
	if errors.As(err, &e) {
		return e
	}
	for _, r := range refusals {
		if r.err == nil || errors.Is(err, r.err) {
			e = &request.Error{Status: r.status, Code: r.code, Message: fmt.Sprintf("the file is no %s: %v", what, err)}
			break
		}
	}
	if e.Status == http.StatusForbidden {
		e.Message += "; hippo session export signs files, and hippo serve --trust names keys of others"
	}
	return e
}

// mostHeavy is the maximum number of imports and exports at a time, since each holds a whole session in memory.
const mostHeavy = 4
