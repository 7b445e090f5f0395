package request

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Phase is a part of the work on a request.
type Phase string

// The phases of a request. A request with several prompts or replies may be in several at once.
const (
	PhaseQueue    Phase = "queue"    // waiting to run
	PhaseRead     Phase = "read"     // the model reads the uncached part of a prompt
	PhaseGenerate Phase = "generate" // the model generates a reply
)

// PhaseEnd describes a finished phase.
type PhaseEnd struct {
	Model   string // "" if the phase has no model
	Read    int    // ids of prompts that the model has read
	Written int    // ids that the model has sampled
	Err     error
}

// Trace is called when a phase of a request starts. The returned function is called when it ends. Both may be called
// from any goroutine. Trace gets the request's context, which middleware may have set: see Options.Middleware.
type Trace func(ctx context.Context, phase Phase) (ended func(PhaseEnd))

type traceKey struct{}

// WithTrace returns a context for a request that t traces.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// counters are the metrics of requests.
type counters interface {
	// Tokens returns a function that counts tokens of a kind, for a model and the key of a client ("" for none).
	Tokens(model, client, kind string) func(n int)
	// First counts the time from a request to its first token.
	First(model string, took time.Duration)
	// Queued counts the time that a request was queued.
	Queued(took time.Duration)
}

// Kinds of tokens in hippo_tokens_total.
const (
	TokensRead    = "read"
	tokensCached  = "cached"
	TokensWritten = "written"
)

// allowance limits what the key of a request may still use.
type allowance interface {
	// TakeTokens counts tokens that a request of the key has read or generated.
	TakeTokens(n int)
	// HasTokens returns an error if the key has no tokens left.
	HasTokens() error
	// Pause returns the time until the key may read another token.
	Pause() time.Duration
}

// unlimited is the allowance of a request without a key, or of a key without limits.
type unlimited struct{}

func (unlimited) TakeTokens(int)       {}
func (unlimited) HasTokens() error     { return nil }
func (unlimited) Pause() time.Duration { return 0 }

// Track records the progress of one request. Any goroutine may call its methods.
type Track struct {
	Counters  counters
	Allowance allowance
	Key       string // the name of the API key, "" for none
	Scope     string // scope of cached texts: see Call.Separate
	Share     Share  // claim to limited resources
	trace     Trace
	start     time.Time

	queued atomic.Int64 // nanoseconds in the queue
	first  atomic.Int64 // nanoseconds to the first token, or 0
}

type trackKey struct{}

func newTrack(ctx context.Context, to counters, start time.Time) *Track {
	t := &Track{Counters: to, Allowance: unlimited{}, start: start}
	t.trace, _ = ctx.Value(traceKey{}).(Trace)
	return t
}

// Context returns a context from which TrackOf returns the track.
func (t *Track) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, trackKey{}, t)
}

// TrackOf returns the track of a context's request, or nil.
func TrackOf(ctx context.Context) *Track {
	t, _ := ctx.Value(trackKey{}).(*Track)
	return t
}

// Begin starts a phase. The returned function ends it.
func (t *Track) Begin(ctx context.Context, p Phase) func(PhaseEnd) {
	if t.trace == nil {
		return func(PhaseEnd) {}
	}
	return t.trace(ctx, p)
}

// Tokens returns a function that counts tokens of a model for the request. kind is one of tokensRead, tokensCached,
// tokensWritten.
func (t *Track) Tokens(model, kind string) func(n int) { return t.Counters.Tokens(model, t.Key, kind) }

// CountCached counts ids of a prompt that were cached.
func CountCached(ctx context.Context, model string, n int) {
	if t := TrackOf(ctx); t != nil {
		t.Tokens(model, tokensCached)(n)
	}
}

// Drawn records that the first token of a reply was sampled.
func (t *Track) Drawn(model string) {
	took := time.Since(t.start)
	if t.first.CompareAndSwap(0, int64(took)) {
		t.Counters.First(model, took)
	}
}

// Attrs returns the latencies of the request for the log.
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
