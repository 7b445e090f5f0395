package serve

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hippo-ssm/hippo/session"
)

// Phase is a part of the work at a request.
type Phase string

// The phases of a request. Those of one request may run at the same time, where it has several prompts or replies.
const (
	PhaseQueue    Phase = "queue"    // it waits for a place among those that run
	PhaseRead     Phase = "read"     // the model reads what is not stored of a prompt
	PhaseGenerate Phase = "generate" // a reply is drawn
)

// PhaseEnd is what is known when a phase is over.
type PhaseEnd struct {
	Model   string // "" where the phase has none
	Read    int    // ids that the model has read of prompts
	Written int    // ids that were drawn
	Err     error
}

// Trace is told when a phase of a request begins, and the function it returns when it ends. Any goroutine may call it.
// The context of the request is that of the middleware: see Options.Middleware.
type Trace func(ctx context.Context, phase Phase) (ended func(PhaseEnd))

type traceKey struct{}

// WithTrace returns a context for a request of which t is told.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

type watchKey struct{}

// watch follows one request through all that works at it. Any goroutine may call its methods.
type watch struct {
	metrics *metrics
	limits  *limits // of the key; nil without any
	client  string  // the name of the key; "" without any
	trace   Trace
	begun   time.Time

	body   atomic.Int64 // bytes that count as the request's
	queued atomic.Int64 // nanoseconds in the queue
	first  atomic.Int64 // nanoseconds to the first token, 0 while there is none
}

// withWatch gives a request its watch.
func (s *Server) withWatch(ctx context.Context, begun time.Time) (context.Context, *watch) {
	w := &watch{metrics: s.metrics, begun: begun}
	w.trace, _ = ctx.Value(traceKey{}).(Trace)
	return context.WithValue(ctx, watchKey{}, w), w
}

// begin tells that a phase begins. The function it returns tells that it ends.
func (w *watch) begin(ctx context.Context, p Phase) func(PhaseEnd) {
	if w.trace == nil {
		return func(PhaseEnd) {}
	}
	return w.trace(ctx, p)
}

// enter is admission.enter, followed.
func (w *watch) enter(ctx context.Context, a *admission) error {
	ended, begun := w.begin(ctx, PhaseQueue), time.Now()
	err := a.enter(ctx)
	took := time.Since(begun)
	w.queued.Store(int64(took))
	w.metrics.queued.Observe(took.Seconds())
	ended(PhaseEnd{Err: err})
	return err
}

// watched is a Runner that follows the requests that it works for.
type watched struct {
	session.Runner
	model string
}

// Run is that of the runner.
func (r watched) Run(ctx context.Context, q *session.Request) error {
	w, _ := ctx.Value(watchKey{}).(*watch)
	if w == nil { // not for a request
		return r.Runner.Run(ctx, q)
	}
	return w.run(ctx, r, q)
}

func (w *watch) run(ctx context.Context, r watched, q *session.Request) (err error) {
	phase, want, from := PhaseRead, 0, q.Session.Position()
	for _, s := range q.Segments {
		want += len(s.IDs)
	}
	if q.Next != nil {
		phase = PhaseGenerate
	}
	ended := w.begin(ctx, phase)
	written := 0
	defer func() { // Next may panic
		read := min(want, q.Session.Position()-from)
		w.limits.takeTokens(read)
		w.metrics.tokenCounter(r.model, w.client, tokensRead).add(read)
		ended(PhaseEnd{Model: r.model, Read: read, Written: written, Err: err})
	}()
	if q.Next == nil {
		return r.Runner.Run(ctx, q)
	}
	drawn := w.metrics.tokenCounter(r.model, w.client, tokensWritten)
	followed := *q
	followed.Next = func(logits []float32) (id int32, more bool, err error) {
		if id, more, err = q.Next(logits); err != nil {
			return id, more, err
		}
		if written++; written == 1 {
			w.drawnFirst(r.model)
		}
		w.limits.takeTokens(1)
		drawn.add(1)
		return id, more, nil
	}
	return r.Runner.Run(ctx, &followed)
}

// countCached counts ids of a prompt that were stored.
func countCached(ctx context.Context, model string, n int) {
	if w, _ := ctx.Value(watchKey{}).(*watch); w != nil {
		w.metrics.tokenCounter(model, w.client, tokensCached).add(n)
	}
}

// attrs are what the log says of what was done for the request.
func (w *watch) attrs() (attrs []slog.Attr) {
	for _, took := range []struct {
		key string
		d   *atomic.Int64
	}{{"queue_seconds", &w.queued}, {"first_token_seconds", &w.first}} {
		if d := time.Duration(took.d.Load()); d > 0 {
			attrs = append(attrs, slog.Float64(took.key, d.Seconds()))
		}
	}
	return attrs
}

// drawnFirst is called when the first token of a reply has been drawn.
func (w *watch) drawnFirst(model string) {
	took := time.Since(w.begun)
	if w.first.CompareAndSwap(0, int64(took)) {
		w.metrics.first.WithLabelValues(model).Observe(took.Seconds())
	}
}

// withMiddleware is the handler of a server behind what its options put before it.
func (s *Server) withMiddleware(h http.Handler) http.Handler {
	if s.o.Middleware == nil {
		return h
	}
	return s.o.Middleware(h)
}
