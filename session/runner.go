// Package session stores, forks, rewinds and saves the state of a model. It also steps the sessions of many requests
// together.
package session

import (
	"context"

	"github.com/hippo-ssm/hippo/generate"
)

// Segment is a part of a text as a model has read it. It determines the bits of the state: see generate.Batch.
type Segment struct {
	IDs   []int32
	Drawn bool // read one id at a time, as sampled, and not in pieces
}

// Request asks a Runner to read and write in one session.
type Request struct {
	Session  *generate.Batch // of one sequence; the runner uses it until Run returns
	Segments []Segment       // read one after another

	// Each, unless it is nil, is called once with the logits after every id of Segments, concurrently and in any order;
	// at counts the ids from 0. It slows reading down, since otherwise only the last id needs logits. The logits are
	// valid during the call.
	Each func(at int, logits []float32)

	// Hidden, unless it is nil, is called like Each, but in order and from one goroutine, with the hidden state after
	// the final norm: d_model values. If Hidden is set and Next is nil, Session has no logits afterwards.
	Hidden func(at int, hidden []float32)

	// Silent says that nobody wants the logits after the last id read: Session has none afterwards, which saves the
	// product with the embedding of every token. Next is nil then.
	Silent bool

	// Next, unless it is nil, is called with the logits after the last id read, and returns the id to read next. It
	// returns more = false to end the request. It is called in the goroutine of Run, may take its time, and may inspect
	// Session. A request without Segments starts with Next.
	Next func(logits []float32) (id int32, more bool, err error)

	// Draft, unless it is nil, returns a guess of up to n ids that Next will return after its last one, which s, the
	// Session, has not read. It is called in the goroutine of Run. A guess changes no bit of what Next is given, and
	// time alone: see generate.Options.
	Draft func(ctx context.Context, s *generate.Batch, n int) ([]int32, error)

	// Progress, unless it is nil, is called after each piece with the number of ids of Segments read so far.
	Progress func(read, total int)

	// Client names the requester for fair sharing: all requests of one client share one part of the time.
	Client string
	// Priority ranks requests: larger ones are served first.
	Priority int
	// Rank orders the requests of one client and priority: lower ones are served first. It takes nothing from other
	// clients.
	Rank int
}

// silent reports whether nothing needs the logits after the last of n ids, of which read have been read.
func (r *Request) silent(read, n int) bool {
	return read < n || (r.Silent || r.Hidden != nil) && r.Next == nil
}

// guess returns a guess of up to most ids that follow the last one.
func (r *Request) guess(ctx context.Context, most int) ([]int32, error) {
	if n := min(most, r.Session.Room()); r.Draft != nil && n > 0 {
		return r.Draft(ctx, r.Session, n)
	}
	return nil, nil
}

// Runner reads and writes with a model. Run returns when the request is done, or with the error of ctx soon after ctx
// is done: at most one piece of a prompt, or one token, later. The session then stands at the end of a piece, after the
// ids it has read. Any other error leaves the session at the end of the last piece. Requests served at the same time
// change no bit of each other's results.
type Runner interface {
	Run(ctx context.Context, r *Request) error
}
