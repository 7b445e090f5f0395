package session

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
)

// place is the part of the program that has a task.
type place int

const (
	away     place = iota // with the goroutine that called Run
	ready                 // waiting for a step
	stepping              // in the step that is running
)

// task is a request in a Scheduler. It moves between the scheduler and the goroutine that called Run. The goroutine
// samples, reports progress and passes on results.
type task struct {
	r    *Request
	turn chan struct{} // receives a value when the task moves to its goroutine

	// Guarded by the scheduler's mu.
	client *client
	number uint64 // counts all tasks in the order of arrival
	place  place
	leaves bool      // its goroutine wants it back at the end of the step
	round  uint64    // the step after which the scheduler waits for its return, 0 for none
	err    error     // the error passed to its goroutine
	since  time.Time // arrival, or the time of the last logits

	// Owned by the goroutine while the task is away, otherwise by the scheduler.
	segment, at int     // it reads Segments[segment].IDs[at] next
	read, total int     // ids of Segments
	drawn       []int32 // the sampled id and guesses of the ids after it
	writes      bool    // it reads drawn next
	guesses     int     // number of guessed ids that it reads in the step
	size        int     // number of ids that it reads in the step
	failed      fault   // error of Each or Hidden
}

// fault holds the first error of several goroutines.
type fault struct {
	mu  sync.Mutex
	err error
}

func (f *fault) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *fault) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = cmp.Or(f.err, err)
}

// newTask returns a task for a request, or an error if the request is invalid or its session is not of the model m.
func newTask(m *model.Model, r *Request) (*task, error) {
	t := &task{r: r, turn: make(chan struct{}, 1), since: time.Now()}
	if r.Session.Model() != m {
		return nil, errors.New("session: found a session of another model, want one of the scheduler's")
	}
	if n := r.Session.Len(); n != 1 {
		return nil, fmt.Errorf("session: found a session of %d sequences, want one", n)
	}
	if len(r.Segments) == 0 && r.Next != nil && r.Session.Logits(0) == nil {
		return nil, errors.New("session: found nothing to read and no logits to draw from, want either")
	}
	runs := make([][]int32, len(r.Segments))
	for i, s := range r.Segments {
		runs[i] = s.IDs
		t.total += len(s.IDs)
	}
	return t, r.Session.Check(runs...)
}

// set moves the task. The scheduler's mu must be held.
func (t *task) set(p place) {
	if t.place == ready {
		t.client.ready--
	}
	if t.place = p; p == ready {
		t.client.ready++
	}
}

// reads reports whether the task has ids left to read: sampled ones or segments.
func (t *task) reads() bool { return t.writes || t.read < t.total }

// rows returns the number of ids that the task reads in its next step, without guesses.
func (t *task) rows() int {
	if t.writes {
		return 1
	}
	most := generate.StepRows
	if !t.r.Segments[t.segment].Drawn {
		most = t.r.Session.Piece(0)
	}
	return min(len(t.r.Segments[t.segment].IDs)-t.at, most)
}

// part returns the ids that the task reads in its next step.
func (t *task) part() generate.Part {
	t.size = t.rows()
	p := generate.Part{Batch: t.r.Session, IDs: t.drawn, Drawn: true}
	if t.writes {
		t.size += t.guesses
		p.IDs, p.Drafts = t.drawn[:t.size], t.guesses
	} else {
		p.Drawn = t.r.Segments[t.segment].Drawn
		p.IDs = t.r.Segments[t.segment].IDs[t.at:][:t.size]
		p.Silent = t.r.silent(t.read+t.size, t.total)
		if t.r.Each != nil {
			p.Each = t.each
		}
		if t.r.Hidden != nil {
			p.Hidden = t.hidden
		}
	}
	return p
}

// each calls Each while the scheduler waits.
func (t *task) each(at int, logits []float32) { t.call(t.r.Each, at, logits) }

// hidden calls Hidden while the scheduler waits.
func (t *task) hidden(at int, hidden []float32) { t.call(t.r.Hidden, at, hidden) }

// call calls Each or Hidden. A panic ends this request only.
func (t *task) call(f func(at int, x []float32), at int, x []float32) {
	if t.failed.get() != nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			t.failed.set(&PanicError{p, debug.Stack()})
		}
	}()
	f(t.read+at, x)
}

// stepped counts the ids read in a step.
func (t *task) stepped() {
	if t.writes {
		t.writes = false
		return
	}
	t.read, t.at = t.read+t.size, t.at+t.size
	if t.at == len(t.r.Segments[t.segment].IDs) {
		t.segment, t.at = t.segment+1, 0
	}
}
