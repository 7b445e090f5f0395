package ollama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// maxPulls is the maximum number of simultaneous pulls.
const maxPulls = 2

// errNoPull is the error of a server whose models cannot be changed by clients.
var errNoPull = &request.Error{
	Status: http.StatusForbidden, Code: "forbidden",
	Message: "this server lets no client fetch or delete models; hippo serve --pull does",
}

// pullLine is a line of the response of /api/pull.
type pullLine struct {
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	Total     int64  `json:"total,omitempty"`
	Completed int64  `json:"completed,omitempty"`
}

// Pull responds to /api/pull: it downloads a model and reports progress.
func (s *Handler) Pull(c *request.Call) error {
	q, err := s.readName(c)
	if err != nil {
		return err
	}
	switch {
	case s.Host.Library == nil || s.Host.Library.Pull == nil:
		return errNoPull
	case q.Insecure:
		return request.Invalid("insecure", "found true, want false: models are fetched from whom they claim to be of")
	case q.Model == "":
		return request.Invalid("model", "found nothing, want the name of a published model")
	}
	if err := c.Draining(); err != nil {
		return err
	}
	select {
	case s.pulls <- struct{}{}:
		defer func() { <-s.pulls }()
	default:
		return request.Busy("%d models are being fetched, as many as may", maxPulls)
	}
	name := host.PlainName(q.Model)
	c.Note("model", name)
	if !request.Or(q.Stream, true) {
		if err := s.pull(c.Request.Context(), name, func(pullLine) {}); err != nil {
			return err
		}
		return c.JSON(pullLine{Status: "success"})
	}
	return c.Stream("application/x-ndjson", func(ctx context.Context, to *request.Queue) error {
		tell := func(line pullLine) {
			if data, err := json.Marshal(line); err == nil {
				to.Add(data, []byte("\n"))
			}
		}
		err := s.pull(ctx, name, tell)
		if err == nil {
			tell(pullLine{Status: "success"})
		}
		return err
	}, failed)
}

// pull downloads a model. It reports bytes at most ten times a second.
func (s *Handler) pull(ctx context.Context, name string, tell func(pullLine)) error {
	const pause = 100 * time.Millisecond
	var told time.Time
	err := s.Host.Library.Pull(ctx, name, func(p host.PullProgress) {
		now := time.Now()
		if p.Done < p.Total && now.Sub(told) < pause {
			return
		}
		told = now
		tell(pullLine{p.Status, p.Digest, p.Total, p.Done})
	})
	var wrong *request.Error // an invalid name
	if err != nil && ctx.Err() == nil && !errors.As(err, &wrong) {
		return &request.Error{
			Status: http.StatusBadGateway, Code: "pull_failed",
			Message: fmt.Sprintf("pull: %v", brief.Error(err)),
		}
	}
	s.Host.Refresh()
	return err
}

// copyRequest is the body of /api/copy.
type copyRequest struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
}

// Copy responds to /api/copy: it gives a model another name until the server stops.
func (s *Handler) Copy(c *request.Call) error {
	var q copyRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if q.Source == "" {
		return request.Invalid("source", "found nothing, want the name of a model")
	}
	if err := s.Host.Copy(c.Request.Context(), q.Source, q.Destination); err != nil {
		return err
	}
	return c.JSON(struct{}{})
}

// Delete responds to /api/delete: it removes a copy's name, or a model from the disk.
func (s *Handler) Delete(c *request.Call) error {
	q, err := s.readName(c)
	if err != nil {
		return err
	}
	if q.Model == "" {
		return request.Invalid("model", "found nothing, want the name of a model")
	}
	if s.Host.RemoveCopy(q.Model) {
		return c.JSON(struct{}{})
	}
	if s.Host.Library == nil || s.Host.Library.Delete == nil {
		return errNoPull
	}
	info, err := s.Host.Find(c.Request.Context(), q.Model)
	if err != nil {
		return err
	}
	c.Note("model", info.Name)
	if err := s.Host.Library.Delete(c.Request.Context(), info); err != nil {
		return &request.Error{Status: http.StatusConflict, Message: fmt.Sprintf("delete: %v", brief.Error(err))}
	}
	s.Host.Removed(info.Name)
	return c.JSON(struct{}{})
}

// Refused responds to endpoints that this server lacks because they create models in Ollama's format.
func (s *Handler) Refused(c *request.Call) error {
	return &request.Error{
		Status: http.StatusNotImplemented, Code: "not_implemented",
		Message: fmt.Sprintf("this server has no %.100s: models are made by hippo train, convert and quantize, and "+
			"fetched by /api/pull", c.Request.URL.Path),
	}
}
