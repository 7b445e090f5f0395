package request

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

// Trace is called when a phase of a request starts, and the function it returns when it ends. Any goroutine may call
// it. The context of the request is that of the middleware: see Options.Middleware.
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
	TokensRead    = "read"
	tokensCached  = "cached"
	TokensWritten = "written"
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

// Track follows one request through all that works at it. Any goroutine may call its methods.
type Track struct {
	Counters  counters
	Allowance allowance
	Key       string // the name of the API key, "" for none
	trace     Trace
	start     time.Time

	queued atomic.Int64 // nanoseconds in the queue
	first  atomic.Int64 // nanoseconds to the first token, 0 while there is none
}

type trackKey struct{}

func newTrack(ctx context.Context, to counters, start time.Time) *Track {
	t := &Track{Counters: to, Allowance: unlimited{}, start: start}
	t.trace, _ = ctx.Value(traceKey{}).(Trace)
	return t
}

// Context returns a context from which trackOf finds the request.
func (t *Track) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, trackKey{}, t)
}

// TrackOf returns what follows the request of a context, nil for none.
func TrackOf(ctx context.Context) *Track {
	t, _ := ctx.Value(trackKey{}).(*Track)
	return t
}

// Begin starts a phase. The function it returns ends it.
func (t *Track) Begin(ctx context.Context, p Phase) func(PhaseEnd) {
	if t.trace == nil {
		return func(PhaseEnd) {}
	}
	return t.trace(ctx, p)
}

// Tokens returns what counts tokens of a model for the request: kind is one of tokensRead, tokensCached, tokensWritten.
func (t *Track) Tokens(model, kind string) func(n int) { return t.Counters.Tokens(model, t.Key, kind) }

// CountCached counts ids of a prompt that were stored.
func CountCached(ctx context.Context, model string, n int) {
	if t := TrackOf(ctx); t != nil {
		t.Tokens(model, tokensCached)(n)
	}
}

// Drawn notes that the first token of a reply has been drawn.
func (t *Track) Drawn(model string) {
	took := time.Since(t.start)
	if t.first.CompareAndSwap(0, int64(took)) {
		t.Counters.First(model, took)
	}
}

// Attrs are the latencies of the request for the log.
func (t *Track) Attrs() (attrs []slog.Attr) {
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
