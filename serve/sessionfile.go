package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hippo-ssm/hippo/session"
)

// exportTime is the most time that a client may take to receive a session.
const exportTime = 10 * time.Minute

// exportSession answers with the session as a file. Others may use it meanwhile.
func (s *sessionsHandler) exportSession(c *call) error {
	var copied *session.Session
	err := s.withSession(c, func(_ context.Context, h *held) error {
		copied = h.Fork()
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.enterHeavy(c); err != nil {
		return err
	}
	defer s.leaveHeavy()
	c.Header().Set("Content-Type", "application/octet-stream")
	c.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", c.r.PathValue("id")+statesEnding))
	return copied.Encode(&slowly{c, time.Now().Add(exportTime)}, session.FileOptions{Marks: sessionMarks})
}

// slowly writes to a client that may be slow, but not for ever.
type slowly struct {
	*call
	until time.Time
}

func (w *slowly) Write(p []byte) (int, error) {
	if time.Now().After(w.until) {
		return 0, errSlow
	}
	if err := w.call.write(p); err != nil {
		return 0, &Error{Status: statusGone, Message: fmt.Sprintf("the client does not read: %v", err)}
	}
	return len(p), nil
}

// importSession takes a file of a session over.
func (s *sessionsHandler) importSession(c *call) error {
	m, err := s.host.model(c, c.r.URL.Query().Get("model"))
	if err != nil {
		return err
	}
	c.note("model", m.name)
	if err := s.roomForSession(c.owner(), 1); err != nil {
		return err
	}
	if err := s.enterHeavy(c); err != nil {
		return err
	}
	defer s.leaveHeavy()
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, s.o.MaxImport))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &Error{
			Status: http.StatusRequestEntityTooLarge, Code: "request_too_large",
			Message: fmt.Sprintf("the session has more than %d bytes, the limit of this server", s.o.MaxImport),
		}
	case err != nil:
		c.Header().Set("Connection", "close")
		return &Error{Status: http.StatusRequestTimeout, Message: "the session did not arrive whole"}
	}
	x, err := decodeSession(data, m, c.client())
	if err != nil {
		return &Error{
			Status: http.StatusBadRequest, Code: "invalid_session",
			Message: fmt.Sprintf("the file is no session for the model %s: %v", m.name, err),
		}
	}
	if n := x.Position(); n > s.limits.MaxPrompt {
		return wrong("session", "found a text of %d tokens, want at most %d, the limit of this server", n,
			s.limits.MaxPrompt)
	}
	if n := len(x.Marks()); n > maxMarks {
		return wrong("session", "found %d marks, want at most %d", n, maxMarks)
	}
	o, err := s.addSession(c, m, x, nil, nil)
	if err != nil {
		return err
	}
	return c.json(o)
}

// mostHeavy is how many sessions are sent or received at a time: each is in memory as a whole.
const mostHeavy = 4

// enterHeavy waits until a session may be sent or received.
func (s *sessionsHandler) enterHeavy(c *call) error {
	if err := c.draining(); err != nil {
		return err
	}
	timer := time.NewTimer(s.o.QueueWait)
	defer timer.Stop()
	select {
	case s.heavy <- struct{}{}:
		return nil
	case <-timer.C:
		return busy("%d sessions are being sent or received, and none has ended in %v", mostHeavy, s.o.QueueWait)
	case <-c.r.Context().Done():
		return context.Cause(c.r.Context())
	}
}

func (s *sessionsHandler) leaveHeavy() { <-s.heavy }
