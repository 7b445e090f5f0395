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

// Errors that a Scheduler returns if it cannot serve a request.
var (
	ErrBusy   = errors.New("session: busy")
	ErrClosed = errors.New("session: the scheduler is closed")
)

// SchedulerOptions configure the limits of a Scheduler. A number below 1 means the default.
type SchedulerOptions struct {
	// Running is the maximum number of requests in a step, 64 by default. More requests raise the total number of
	// tokens/s but lower that of each request.
	Running int
	// Waiting is the maximum number of queued requests, 1,024 by default. Further ones fail with ErrBusy.
	Waiting int
	// PerClient is the maximum number of requests of one client, so that no client alone can make the scheduler busy
	// for others. Below 1 there is no limit.
	PerClient int
	// Rows is the maximum number of ids that a step reads in all sequences together, 256 by default. A step exceeds it
	// if it has more sequences, or if a single piece of a prompt is longer.
	Rows int
}

// Scheduler is a Runner that serves many requests at once, in steps. Each step is one call of the model, which reads
// the weights once for all requests. It processes one token of each request that is writing, and pieces of the prompts
// of requests that are reading. Requests join and leave between steps. A step takes at most one piece of a prompt, so
// other requests write a token after each piece.
//
// Clients that have requests get equal shares, counted in tokens. An idle client does not accumulate a claim. The
// oldest request of a client is served first. Requests of higher priority precede all others, and a step that has one
// reads no prompts of lower priority.
//
// The goroutine that calls Run also calls Next and Progress. They may be slow, wait for a client that reads slowly, or
// panic, without harm to other requests. Each and Hidden are called during a step, which waits for them; if one panics,
// the request fails with a PanicError. A step waits for the requests that received logits from the previous step, as
// long as some of them return. A request that takes much longer joins a later step.
//
// The bits of a result do not depend on the other requests in the steps, on the time or on the limits.
//
// All methods may be called from any number of goroutines.
type Scheduler struct {
	model   *model.Model
	options SchedulerOptions
	wake    chan struct{} // receives a value when the loop has work
	ended   chan struct{} // closed when the loop has ended
	empty   chan struct{} // closed when no request is left and none is admitted

	mu       sync.Mutex
	share    share
	tasks    map[*generate.Batch]*task // the tasks being served
	stats    SchedulerStats
	round    uint64 // number of the step
	expected int    // tasks that left after the step and have not returned yet
	idle     bool   // the loop waits until a task is ready
	refuses  bool   // no request is admitted
	closed   bool

	parts    []generate.Part // used by the loop only
	timer    *time.Timer     // used by the loop only
	patience time.Duration   // minimum time that a step waits for tasks
}

var _ Runner = (*Scheduler)(nil)

// NewScheduler returns a scheduler for sessions of m. Close ends it.
func NewScheduler(m *model.Model, o SchedulerOptions) *Scheduler {
	s := newScheduler(m, o)
	go s.loop()
	return s
}

// newScheduler returns a scheduler whose loop has not started.
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

// Run serves a request: see Runner. It returns ErrBusy at once if a limit is reached, and ErrClosed if the scheduler is
// closed before the request is done.
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
	defer func() { // Next may panic
		s.leave(t, done)
		r.Session.Rest()
	}()
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
		if r.Session.Take(id) {
			s.accept(t)
			continue
		}
		guess, err := r.guess(ctx, s.guessRoom())
		if err != nil {
			return err
		}
		t.drawn, t.writes = append(append(t.drawn[:0], id), guess...), true
		if err := r.Session.Check(t.drawn); err != nil {
			return err
		}
	}
}

// guessRoom returns how many ids a request may guess, given the number of other requests.
func (s *Scheduler) guessRoom() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return guessRows - len(s.tasks)
}

// accept counts an id that was guessed, read, and then sampled.
func (s *Scheduler) accept(t *task) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Accepted++
	s.stats.drawn(t, now)
}

// join admits a task.
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

// leave removes a task.
func (s *Scheduler) leave(t *task, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back(t)
	s.share.remove(t)
	delete(s.tasks, t.r.Session)
	if s.stats.Ended++; !done {
		s.stats.Failed++
	}
	s.signalEmpty()
}

// signalEmpty closes empty once the last request is done. s.mu must be held.
func (s *Scheduler) signalEmpty() {
	if !s.refuses || len(s.tasks) > 0 {
		return
	}
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}

// take waits for a step that reads the task's next ids, or for the steps that read several pieces if the request has no
// Progress.
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

// recall takes a task back from the scheduler, after the step if it takes part in one.
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

// back counts a returned task if the next step waits for it. s.mu must be held.
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
	default: // it is awake
	}
}

// Drain admits no more requests, waits until the current ones are done, and closes the scheduler. If ctx is done first,
// Drain closes the scheduler at once and returns the error of ctx.
func (s *Scheduler) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.refuses = true
	s.signalEmpty()
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

// Close ends all requests with ErrClosed. When it returns, no step is running.
func (s *Scheduler) Close() {
	s.mu.Lock()
	s.refuses, s.closed = true, true
	for _, t := range s.tasks {
		if t.place == ready {
			s.handOver(t, ErrClosed)
		}
	}
	s.signalEmpty()
	s.rouse()
	s.mu.Unlock()
	<-s.ended
}

// handOver passes a task to its goroutine. s.mu must be held.
func (s *Scheduler) handOver(t *task, err error) {
	t.set(away)
	t.err, t.round = err, s.round
	s.expected++
	t.turn <- struct{}{} // never blocks: the task's last value has been received
}

// loop runs steps until the scheduler is closed.
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
			s.rest()
			s.mu.Lock()
			s.idle = false
		}
	}
}

// idlePause is the time that an idle scheduler waits before each call of Model.Warm.
const idlePause = 2 * time.Millisecond

// rest waits for work. Meanwhile it prepares memory for the states of later requests.
func (s *Scheduler) rest() {
	for more := true; more; more = s.model.Warm() {
		s.timer.Reset(idlePause)
		select {
		case <-s.wake:
			s.timer.Stop()
			return
		case <-s.timer.C:
		}
	}
	<-s.wake
}

// step reads the next ids of each task in one call of the model. It then passes the tasks to their goroutines, except
// those whose prompt continues and that report no progress. s.mu must be held; step releases it during the call.
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

// PanicError reports that the model panicked in a step, or that Each or Hidden of a request panicked. The sessions of
// the failed requests are no longer usable.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the value of the panic.
func (e *PanicError) Error() string { return fmt.Sprintf("session: panic while reading: %v", e.Value) }

// feed calls generate.Feed and returns a panic as an error, so that later steps can go on.
func feed(parts []generate.Part) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return generate.Feed(context.Background(), parts...)
}

// gather waits for the tasks that left after the step, so that the next step is full. It waits for up to 8 periods of
// limit, but at least s.patience, and stops after a period in which no task returned. s.mu must be held; gather
// releases it while it waits.
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

// Stats returns the scheduler's measurements so far.
func (s *Scheduler) Stats() SchedulerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats.copied(s.share.active, len(s.tasks))
}
