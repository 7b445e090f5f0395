package serve

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Phase is a part of the work at a request.
type Phase string

// The phases of a request. Several of one request may run at the same time, if it has several prompts or replies.
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

// Trace is called when a phase of a request starts, and the function it returns when it ends. Any goroutine may call it.
// The context of the request is that of the middleware: see Options.Middleware.
type Trace func(ctx context.Context, phase Phase) (ended func(PhaseEnd))

type traceKey struct{}

// WithTrace returns a context for a request that t follows.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// counters are the metrics of requests.
type counters interface {
	// Tokens returns what counts tokens of a kind, of a model, for the key of a client ("" for none).
	Tokens(model, client, kind string) func(n int)
	// First counts the time from a request to its first token.
	First(model string, took time.Duration)
	// Queued counts the time that a request has waited to run.
	Queued(took time.Duration)
}

// What a token was taken for, in hippo_tokens_total.
const (
	tokensRead    = "read"
	tokensCached  = "cached"
	tokensWritten = "written"
)

// allowance is what the key of a request may still take.
type allowance interface {
	// TakeTokens counts tokens that a request of the key has read or written.
	TakeTokens(n int)
	// HasTokens returns an error if the key has no tokens left.
	HasTokens() error
	// Pause is how long it takes until a token may be read for the key.
	Pause() time.Duration
}

// unlimited is the allowance of a request without a key, or of a key without limits.
type unlimited struct{}

func (unlimited) TakeTokens(int)       {}
func (unlimited) HasTokens() error     { return nil }
func (unlimited) Pause() time.Duration { return 0 }

// track follows one request through all that works at it. Any goroutine may call its methods.
type track struct {
	Counters  counters
	Allowance allowance
	key       string // the name of the API key, "" for none
	trace     Trace
	start     time.Time

	queued atomic.Int64 // nanoseconds in the queue
	first  atomic.Int64 // nanoseconds to the first token, 0 while there is none
}

type trackKey struct{}

func newTrack(ctx context.Context, to counters, start time.Time) *track {
	t := &track{Counters: to, Allowance: unlimited{}, start: start}
	t.trace, _ = ctx.Value(traceKey{}).(Trace)
	return t
}

// context returns a context from which trackOf finds the request.
func (t *track) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, trackKey{}, t)
}

// trackOf returns what follows the request of a context, nil for none.
func trackOf(ctx context.Context) *track {
	t, _ := ctx.Value(trackKey{}).(*track)
	return t
}

// begin starts a phase. The function it returns ends it.
func (t *track) begin(ctx context.Context, p Phase) func(PhaseEnd) {
	if t.trace == nil {
		return func(PhaseEnd) {}
	}
	return t.trace(ctx, p)
}

// tokens returns what counts tokens of a model for the request: kind is one of tokensRead, tokensCached, tokensWritten.
func (t *track) tokens(model, kind string) func(n int) { return t.Counters.Tokens(model, t.key, kind) }

// countCached counts ids of a prompt that were stored.
func countCached(ctx context.Context, model string, n int) {
	if t := trackOf(ctx); t != nil {
		t.tokens(model, tokensCached)(n)
	}
}

// drawn notes that the first token of a reply has been drawn.
func (t *track) drawn(model string) {
	took := time.Since(t.start)
	if t.first.CompareAndSwap(0, int64(took)) {
		t.Counters.First(model, took)
	}
}

// attrs are the latencies of the request for the log.
func (t *track) attrs() (attrs []slog.Attr) {
	for _, took := range []struct {
		key string
		d   *atomic.Int64
	}{{"queue_seconds", &t.queued}, {"first_token_seconds", &t.first}} {
		if d := time.Duration(took.d.Load()); d > 0 {
			attrs = append(attrs, slog.Float64(took.key, d.Seconds()))
		}
	}
	return attrs
}
