package sessions

import (
	"context"
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

// Export responds with the session as a file. Other requests may use the session meanwhile.
func (s *Handler) Export(c *request.Call) error {
	var copied *session.Session
	err := s.withSession(c, func(_ context.Context, h *inUse) error {
		copied = h.Fork()
		return nil
	})
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
	return copied.Encode(&slowly{c, time.Now().Add(exportTime)}, session.FileOptions{Marks: sessionMarks})
}

// slowly writes to a client that may be slow, within a limit.
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
	m, err := s.Host.Model(c, c.Query("model"))
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
	data, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, s.o.MaxImport))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &request.Error{
			Status: http.StatusRequestEntityTooLarge, Code: "request_too_large",
			Message: fmt.Sprintf("the session has more than %d bytes, the limit of this server", s.o.MaxImport),
		}
	case err != nil:
		c.Header().Set("Connection", "close")
		return &request.Error{Status: http.StatusRequestTimeout, Message: "the session did not arrive whole"}
	}
	x, err := decodeSession(data, m, c.Client())
	if err == nil {
		err = x.CheckFinite()
	}
	if err != nil {
		return &request.Error{
			Status: http.StatusBadRequest, Code: "invalid_session",
			Message: fmt.Sprintf("the file is no session for the model %s: %v", m.Name, err),
		}
	}
	if n := x.Position(); n > s.Limits.MaxPrompt {
		return request.Invalid("session", "found a text of %d tokens, want at most %d, the limit of this server", n,
			s.Limits.MaxPrompt)
	}
	if n := len(x.Marks()); n > maxMarks {
		return request.Invalid("session", "found %d marks, want at most %d", n, maxMarks)
	}
	o, err := s.addSession(c, m, x, nil, nil)
	if err != nil {
		return err
	}
	return c.JSON(o)
}

// mostHeavy is the maximum number of imports and exports at a time: each holds a whole session in memory.
const mostHeavy = 4
