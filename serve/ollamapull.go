package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/hippo-ssm/hippo/internal/brief"
)

// maxPulls is how many models are fetched at a time.
const maxPulls = 2

// errNoPull is the error where clients may change nothing.
var errNoPull = &Error{
	Status: http.StatusForbidden, Code: "forbidden",
	Message: "this server lets no client fetch or delete models; hippo serve --pull does",
}

// pullLine is a line of the answer of /api/pull.
type pullLine struct {
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	Total     int64  `json:"total,omitempty"`
	Completed int64  `json:"completed,omitempty"`
}

// ollamaPull answers /api/pull: it fetches a model, and tells how far it has come.
func (s *ollamaHandler) ollamaPull(c *call) error {
	q, err := s.readName(c)
	if err != nil {
		return err
	}
	switch {
	case s.host.lib == nil || s.host.lib.Pull == nil:
		return errNoPull
	case q.Insecure:
		return wrong("insecure", "found true, want false: models are fetched from whom they claim to be of")
	case q.Model == "":
		return wrong("model", "found nothing, want the name of a published model")
	}
	if err := c.draining(); err != nil {
		return err
	}
	select {
	case s.pulls <- struct{}{}:
		defer func() { <-s.pulls }()
	default:
		return busy("%d models are being fetched, as many as may", maxPulls)
	}
	name := plainName(q.Model)
	c.note("model", name)
	if !or(q.Stream, true) {
		if err := s.pull(c.r.Context(), name, func(pullLine) {}); err != nil {
			return err
		}
		return c.json(pullLine{Status: "success"})
	}
	return c.carry("application/x-ndjson", func(ctx context.Context, to *queue) error {
		tell := func(line pullLine) {
			if data, err := json.Marshal(line); err == nil {
				to.add(data, []byte("\n"))
			}
		}
		err := s.pull(ctx, name, tell)
		if err == nil {
			tell(pullLine{Status: "success"})
		}
		return err
	}, ollamaFailed)
}

// pull fetches a model. It tells of bytes ten times a second at most.
func (s *ollamaHandler) pull(ctx context.Context, name string, tell func(pullLine)) error {
	const pause = 100 * time.Millisecond
	var told time.Time
	err := s.host.lib.Pull(ctx, name, func(p PullProgress) {
		now := time.Now()
		if p.Done < p.Total && now.Sub(told) < pause {
			return
		}
		told = now
		tell(pullLine{p.Status, p.Digest, p.Total, p.Done})
	})
	if err != nil && ctx.Err() == nil {
		return &Error{
			Status: http.StatusBadGateway, Code: "pull_failed",
			Message: fmt.Sprintf("pull: %v", brief.Error(err)),
		}
	}
	s.host.renew()
	return err
}

// ollamaDelete answers /api/delete: it removes a model from the disk.
func (s *ollamaHandler) ollamaDelete(c *call) error {
	q, err := s.readName(c)
	if err != nil {
		return err
	}
	if s.host.lib == nil || s.host.lib.Delete == nil {
		return errNoPull
	}
	if q.Model == "" {
		return wrong("model", "found nothing, want the name of a model")
	}
	info, err := s.host.find(c.r.Context(), q.Model)
	if err != nil {
		return err
	}
	c.note("model", info.Name)
	if err := s.host.lib.Delete(c.r.Context(), info); err != nil {
		return &Error{Status: http.StatusConflict, Message: fmt.Sprintf("delete: %v", brief.Error(err))}
	}
	s.host.forget(info.Name)
	return c.json(struct{}{})
}

// ollamaRefused answers what makes models in Ollama's way.
func (s *ollamaHandler) ollamaRefused(c *call) error {
	return &Error{
		Status: http.StatusNotImplemented, Code: "not_implemented",
		Message: fmt.Sprintf("this server has no %.100s: models are made by hippo train, convert and quantize, and "+
			"fetched by /api/pull", c.r.URL.Path),
	}
}
