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
	Drawn bool // read one id at a time, as sampled ids are, not in pieces
}

// Request is a request to a Runner to read and write in one session.
type Request struct {
	Session  *generate.Batch // of one sequence; the runner uses it until Run returns
	Segments []Segment       // read one after another

	// Each, unless it is nil, is called once for every id of Segments, with the index of the id, from 0, and the logits
	// after it. Calls are concurrent and in any order. Each slows reading down, since otherwise only the last id needs
	// logits. The logits are valid only during the call.
	Each func(at int, logits []float32)

	// Hidden, unless it is nil, is called like Each, but in order and from one goroutine, with the hidden state after
	// the final norm: d_model values. If Hidden is set and Next is nil, Session has no logits afterwards.
	Hidden func(at int, hidden []float32)

	// Silent skips the logits after the last id read: Session has none afterwards, which saves the product with the
	// embedding of every token. Next must be nil.
	Silent bool

	// Next, unless it is nil, is called with the logits after the last id read, and returns the id to read next. It
	// returns more = false to end the request. It is called in the goroutine of Run, may be slow, and may inspect
	// Session. A request without Segments starts with Next.
	Next func(logits []float32) (id int32, more bool, err error)

	// Draft, unless it is nil, returns up to n guesses of the ids that Next will return after its last id. The batch s
	// is Session, which has not read that last id yet. Draft is called in the goroutine of Run. Guesses change only the
	// time that a request takes, no bit of the logits that Next receives: see generate.Options.
	Draft func(ctx context.Context, s *generate.Batch, n int) ([]int32, error)

	// Progress, unless it is nil, is called after each piece with the number of ids of Segments read so far.
	Progress func(read, total int)

	// Client is the name under which requests share time: all requests of one client get one share together.
	Client string
	// Priority ranks requests: larger ones are served first.
	Priority int
	// Rank orders the requests of one client and priority: lower ones are served first. It does not affect other
	// clients.
	Rank int
}

// silent reports whether nothing needs the logits at a point where read ids of n have been read.
func (r *Request) silent(read, n int) bool {
	return read < n || (r.Silent || r.Hidden != nil) && r.Next == nil
}

// guess returns guesses of up to most ids that follow the last sampled id.
func (r *Request) guess(ctx context.Context, most int) ([]int32, error) {
	if n := min(most, r.Session.Room()); r.Draft != nil && n > 0 {
		return r.Draft(ctx, r.Session, n)
	}
	return nil, nil
}

// Runner serves requests with a model. Run returns when the request is done. If ctx is done first, Run returns the
// error of ctx after at most one more piece of a prompt or one more token. After this or any other error the session is
// at the end of the last piece that it read. Requests served at the same time change no bit of each other's results.
type Runner interface {
	Run(ctx context.Context, r *Request) error
}
