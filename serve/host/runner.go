package host

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

type priorityKey struct{}

// WithPriority returns a context whose requests have a priority in the scheduler. Interactive requests have 0.
func WithPriority(ctx context.Context, priority int) context.Context {
	return context.WithValue(ctx, priorityKey{}, priority)
}

// runner is a Runner that counts the tokens of requests, traces them, and passes on their priority.
type runner struct {
	session.Runner
	model string
	on    engine.Backend
}

// lost returns the error of a request whose device has failed, or nil while the device works.
func (r runner) lost() error {
	cause := engine.Failure(r.on)
	if cause == nil {
		return nil
	}
	return ErrDevice(fmt.Sprintf("model: the device of %.100q has failed, and the model is loaded again for the next "+
		"request: %v", r.model, cause))
}

// ErrDevice is the error of a server whose device has failed.
func ErrDevice(message string) *request.Error {
	return &request.Error{Status: http.StatusServiceUnavailable, Param: "model", Code: "device_lost",
		Retry: time.Second, Message: message}
}

// Run runs a request.
func (r runner) Run(ctx context.Context, q *session.Request) (err error) {
	if p, ok := ctx.Value(priorityKey{}).(int); ok {
		q.Priority = p
	}
	defer func() {
		if lost := r.lost(); lost != nil { // it explains all other errors
			err = lost
		}
	}()
	t := request.TrackOf(ctx)
	if t == nil { // not an HTTP request
		return r.Runner.Run(ctx, q)
	}
	q.Rank = t.Share.Rank
	phase, want, from := request.PhaseRead, 0, q.Session.Position()
	for _, s := range q.Segments {
		want += len(s.IDs)
	}
	if q.Next != nil {
		phase = request.PhaseGenerate
	}
	ended := t.Begin(ctx, phase)
	written := 0
	defer func() { // Next may panic
		read := min(want, q.Session.Position()-from)
		t.Allowance.TakeTokens(read)
		t.Tokens(r.model, request.TokensRead)(read)
		ended(request.PhaseEnd{Model: r.model, Read: read, Written: written, Err: err})
	}()
	if q.Next == nil {
		return r.Runner.Run(ctx, q)
	}
	count := t.Tokens(r.model, request.TokensWritten)
	followed := *q
	followed.Next = func(logits []float32) (id int32, more bool, err error) {
		if err = r.lost(); err != nil { // the logits are NaN
			return 0, false, err
		}
		if id, more, err = q.Next(logits); err != nil {
			return id, more, err
		}
		if written++; written == 1 {
			t.Drawn(r.model)
		}
		t.Allowance.TakeTokens(1)
		count(1)
		return id, more, nil
	}
	return r.Runner.Run(ctx, &followed)
}

// Scheduler returns the model's underlying runner, without counting.
func (m *Model) Scheduler() session.Runner {
	if r, ok := m.Runner.(runner); ok {
		return r.Runner
	}
	return m.Runner
}
