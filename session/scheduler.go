package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
)

// Why a Scheduler serves no request.
var (
	ErrBusy   = errors.New("session: busy")
	ErrClosed = errors.New("session: the scheduler is closed")
)

// SchedulerOptions are the limits of a Scheduler. A number below 1 stands for the one given here.
type SchedulerOptions struct {
	// Running is the most requests of a step, 64. More of them have more tokens/s in all and fewer each.
	Running int
	// Waiting is the most requests that wait besides, 1,024. Those that come on top have the error ErrBusy.
	Waiting int
	// PerClient is the maximum number of requests of one client, so that one client alone cannot make the scheduler
	// busy for others. Any number is allowed below 1.
	PerClient int
	// Rows is how many ids the sequences of a step read together, 256. A step reads more where it has more sequences,
	// or where a single piece of a prompt is more.
	Rows int
}

// Scheduler is the Runner that serves many at once. A step takes one token of each request that writes, and pieces of
// the prompts of those that read, in one call of the model: the weights are read once for all. Requests come and go
// between steps. A prompt never has more than one piece in a step, so others write a token after each of its pieces.
//
// Clients have equal parts, counted in tokens, as long as they want them: a client that waits for nothing saves up
// nothing. Of one client's requests the older comes first. A request of a larger priority comes before those of a
// smaller one, whoever's they are, and prompts of a smaller one are not read in the same step.
//
// The goroutine that calls Run calls Next and Progress, too: so they may take their time, wait for a client that reads
// slowly, or panic, and hit no one else. Each is called during a step, which waits for it: where it panics the request
// has a PanicError. A step waits for those that have the logits of the step before, as long as some of them come back:
// one that takes much longer than a step joins a later one.
//
// What is read at the same time changes no bit. So the same request has the same answer whenever it comes, whoever else
// is there, and whatever the limits are.
//
// All methods may be called by any number of goroutines.
type Scheduler struct {
	model   *model.Model
	options SchedulerOptions
	wake    chan struct{} // given something when the loop has something to do
	ended   chan struct{} // closed when the loop has ended
	empty   chan struct{} // closed when there is no request left and none is let in

	mu       sync.Mutex
	share    share
	tasks    map[*generate.Batch]*task // those that are served
	stats    SchedulerStats
	round    uint64 // number of the step
	expected int    // tasks that went away after it and are not back
	idle     bool   // the loop waits until something is ready
	refuses  bool   // nothing is let in
	closed   bool

	parts    []generate.Part // the loop's own
	timer    *time.Timer     // likewise
	patience time.Duration   // a step waits so long for tasks at least
}

var _ Runner = (*Scheduler)(nil)

// NewScheduler returns a scheduler for sessions of m. Close ends it.
func NewScheduler(m *model.Model, o SchedulerOptions) *Scheduler {
	s := newScheduler(m, o)
	go s.loop()
	return s
}

// newScheduler returns a scheduler that makes no steps yet.
func newScheduler(m *model.Model, o SchedulerOptions) *Scheduler {
	for _, limit := range []struct {
		n        *int
		standard int
	}{{&o.Running, 64}, {&o.Waiting, 1024}, {&o.Rows, 256}} {
		if *limit.n < 1 {
			*limit.n = limit.standard
		}
	}
	return &Scheduler{
		model: m, options: o, wake: make(chan struct{}, 1), ended: make(chan struct{}), empty: make(chan struct{}),
		share: newShare(o), tasks: map[*generate.Batch]*task{}, stats: newStats(), timer: time.NewTimer(0),
		patience: time.Millisecond,
	}
}

// Run serves a request, as Runner says. It returns ErrBusy at once where the limits are reached, and ErrClosed where
// the scheduler is closed before the request is done.
func (s *Scheduler) Run(ctx context.Context, r *Request) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := newTask(s.model, r)
	if err != nil {
		return err
	}
	if err := s.join(t); err != nil {
		return err
	}
	done := false
	defer func() { s.leave(t, done) }() // Next may panic
	for {
		for t.reads() {
			writes := t.writes
			if err := s.take(ctx, t); err != nil {
				return err
			}
			if r.Progress != nil && !writes {
				r.Progress(t.read, t.total)
			}
		}
		if done = r.Next == nil; done {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		id, more, err := r.Next(r.Session.Logits(0))
		if err != nil {
			return err
		}
		if done = !more; done {
			return nil
		}
		t.drawn[0], t.writes = id, true
		if err := r.Session.Check(t.drawn[:]); err != nil {
			return err
		}
	}
}

// join lets a task in.
func (s *Scheduler) join(t *task) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses {
		return ErrClosed
	}
	if s.tasks[t.r.Session] != nil {
		return errors.New("session: found a session in two requests at once, want one after the other")
	}
	most, own := s.options.Running+s.options.Waiting, s.options.PerClient
	c := s.share.clients[t.r.Client]
	switch {
	case len(s.tasks) >= most:
		s.stats.Refused++
		return fmt.Errorf("%w: %d requests are running and %d waiting, as many as may", ErrBusy, s.options.Running,
			s.options.Waiting)
	case own > 0 && c != nil && len(c.tasks) >= own:
		s.stats.Refused++
		return fmt.Errorf("%w: the client has %d requests, as many as it may", ErrBusy, own)
	}
	s.tasks[t.r.Session] = t
	s.share.add(t)
	return nil
}

// leave lets a task out.
func (s *Scheduler) leave(t *task, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back(t)
	s.share.remove(t)
	delete(s.tasks, t.r.Session)
	if s.stats.Ended++; !done {
		s.stats.Failed++
	}
	s.tell()
}

// tell closes empty when it is time to. The lock is held.
func (s *Scheduler) tell() {
	if !s.refuses || len(s.tasks) > 0 {
		return
	}
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}

// take has a step read the task's next ids, or several steps several pieces where no one asks for each.
func (s *Scheduler) take(ctx context.Context, t *task) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	t.set(ready)
	s.back(t)
	if s.idle {
		s.rouse()
	}
	s.mu.Unlock()
	select {
	case <-t.turn:
	case <-ctx.Done():
		s.recall(t)
		return ctx.Err()
	}
	if t.err != nil {
		return t.err
	}
	return ctx.Err()
}

// recall takes a task back from the scheduler: after the step, where it is in one.
func (s *Scheduler) recall(t *task) {
	s.mu.Lock()
	if t.place == stepping {
		t.leaves = true
		s.mu.Unlock()
		<-t.turn
		return
	}
	t.set(away)
	s.mu.Unlock()
}

// back counts a task that the next step waits for. The lock is held.
func (s *Scheduler) back(t *task) {
	if t.round != s.round || t.round == 0 {
		return
	}
	t.round = 0
	if s.expected--; s.expected == 0 {
		s.rouse()
	}
}

// rouse wakes the loop.
func (s *Scheduler) rouse() {
	select {
	case s.wake <- struct{}{}:
	default: // it wakes already
	}
}

// Drain lets no more requests in, waits until those that are there are done, and closes the scheduler. If ctx is done
// before, it closes it at once and returns the error of ctx.
func (s *Scheduler) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.refuses = true
	s.tell()
	s.mu.Unlock()
	var err error
	select {
	case <-s.empty:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.Close()
	return err
}

// Close ends all requests with ErrClosed. When it returns no step runs; what remains to be done is the requests' own.
func (s *Scheduler) Close() {
	s.mu.Lock()
	s.refuses, s.closed = true, true
	for _, t := range s.tasks {
		if t.place == ready {
			s.handOver(t, ErrClosed)
		}
	}
	s.tell()
	s.rouse()
	s.mu.Unlock()
	<-s.ended
}

// handOver gives a task to its goroutine. The lock is held.
func (s *Scheduler) handOver(t *task, err error) {
	t.set(away)
	t.err, t.round = err, s.round
	s.expected++
	t.turn <- struct{}{} // there is room: it was taken when the task came
}

// loop makes steps until the scheduler is closed.
func (s *Scheduler) loop() {
	defer close(s.ended)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		step := s.share.choose()
		switch {
		case len(step) > 0:
			took := s.step(step)
			s.gather(took)
		case s.closed:
			return
		default:
			s.idle = true
			s.mu.Unlock()
			<-s.wake
			s.mu.Lock()
			s.idle = false
		}
	}
}

// step has the model read what is next of each task, and gives them to their goroutines, except for prompts that
// continue and tell no one. It gives up the lock for the time.
func (s *Scheduler) step(step []*task) (took time.Duration) {
	s.round, s.expected = s.round+1, 0
	rows := 0
	for _, t := range step {
		s.parts = append(s.parts, t.part())
		rows += t.size
	}
	s.mu.Unlock()
	begun := time.Now()
	err := feed(s.parts)
	now := time.Now()
	clear(s.parts)
	s.parts = s.parts[:0]
	s.mu.Lock()
	s.stats.step(len(step), rows)
	for _, t := range step {
		if err == nil {
			s.stats.count(t, now)
			t.stepped()
		}
		failed := cmp.Or(err, t.failed.get())
		if failed != nil || !t.reads() || t.leaves || s.closed || t.r.Progress != nil {
			s.handOver(t, failed)
		} else {
			t.set(ready)
		}
	}
	return now.Sub(begun)
}

// PanicError is the error of the requests of a step in which the model panicked, and of one whose Each did. Their
// sessions are of no more use.
type PanicError struct {
	Value any
	Stack []byte
}

// Error says what the panic was about.
func (e *PanicError) Error() string { return fmt.Sprintf("session: panic while reading: %v", e.Value) }

// feed is generate.Feed. A panic becomes an error: it must not end the requests of later steps.
func feed(parts []generate.Part) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return generate.Feed(context.Background(), parts...)
}

// gather waits for the tasks that went away after the step, so that the next is full. It continues without those that
// are not back where no one has come back for the given time, or after some such times. It gives up the lock meanwhile.
func (s *Scheduler) gather(limit time.Duration) {
	limit = max(limit, s.patience)
	for range 8 {
		if s.expected == 0 {
			return
		}
		missing := s.expected
		s.timer.Reset(limit)
		for late := false; s.expected > 0 && !late; {
			s.mu.Unlock()
			select {
			case <-s.wake:
			case <-s.timer.C:
				late = true
			}
			s.mu.Lock()
		}
		s.timer.Stop()
		if s.expected == missing {
			return
		}
	}
}

// Stats are the scheduler's figures so far.
func (s *Scheduler) Stats() SchedulerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats.copied(s.share.active, len(s.tasks))
}
