// Package session makes the state of a model an object that can be stored, forked, rewound and saved, and steps the
// sessions of many requests together.
package session

import (
	"context"

	"github.com/hippo-ssm/hippo/generate"
)

// Segment is a part of a text as a model has read it. The bits of a state depend on it: see generate.Batch.
type Segment struct {
	IDs   []int32
	Drawn bool // read one id at a time, as they were drawn, and not in pieces
}

// Request is what a Runner does for one session.
type Request struct {
	Session  *generate.Batch // of one sequence; the runner's own until it has answered
	Segments []Segment       // to be read, one after another

	// Each, unless it is nil, is called once with the logits after every id of Segments, by several goroutines at once
	// and in no order: at counts them from 0. It makes reading slower, since otherwise only the last id needs logits.
	// The logits are valid during the call.
	Each func(at int, logits []float32)

	// Hidden, unless it is nil, is called in the same way, but in order and by one goroutine, with the hidden state
	// after the final norm, of d_model numbers. A request that has it and no Next leaves Session without logits.
	Hidden func(at int, hidden []float32)

	// Next, unless it is nil, is called with the logits after the last id that has been read, and returns the id to
	// read next. More is false if there is none: the request is done. It is called in the goroutine of Run, may take
	// its time, and may look at Session, which stands after what has been read. So a request without Segments starts
	// with Next.
	Next func(logits []float32) (id int32, more bool, err error)

	// Progress, unless it is nil, is called after each piece with how many ids of Segments have been read.
	Progress func(read, total int)

	// Client names the requester for fair sharing: all requests of one client share one client's part of the time.
	Client string
	// Priority puts a request before those with a smaller one.
	Priority int
}

// silent reports whether the logits are not needed after the last of n ids, of which read have been read.
func (r *Request) silent(read, n int) bool { return read < n || r.Hidden != nil && r.Next == nil }

// Runner reads and writes with a model. Run returns when the request is done, or soon after ctx is done with the error
// of ctx: at most a piece of a prompt, or one token, later. The session is then at the end of a piece, after what it
// has read; after any other error it has changed nothing since the last piece. Other requests served at the same time
// change no bit of the result.
type Runner interface {
	Run(ctx context.Context, r *Request) error
}
