package request

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Admission limits the number of running requests and of queued requests, and shares both among clients: see shares. A
// free place goes to the client with the fewest running requests. Clients with equally many take turns. Within a
// client, the request of the lowest rank is admitted first, and the oldest of equal rank.
type Admission struct {
	wait time.Duration

	mu      sync.Mutex
	running shares
	queued  shares
	queues  []*queue // of the clients with queued requests; the one whose turn was last is at the end
}

// queue holds the queued requests of a client, by rank and then by age, with the lines of its batches after the others.
type queue struct {
	client  string
	waiting []*entrant
}

// entrant is a queued request.
type entrant struct {
	Share
	admitted chan struct{} // closed when the request is admitted
}

// before compares requests in the queue of a client.
func (e *entrant) before(other *entrant) int {
	switch {
	case e.Last != other.Last && e.Last:
		return 1
	case e.Last != other.Last:
		return -1
	}
	return cmp.Compare(e.Rank, other.Rank)
}

// NewAdmission returns limits on the numbers of running and queued requests, and on the time in the queue.
func NewAdmission(run, queue int, wait time.Duration) *Admission {
	return &Admission{running: newShares(int64(run)), queued: newShares(int64(queue)), wait: wait}
}

// Running returns the number of running requests.
func (a *Admission) Running() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int(a.running.taken)
}

// Queued returns the number of queued requests.
func (a *Admission) Queued() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int(a.queued.taken)
}

const running = "requests are running"

// open reports whether a client's next request may run.
func (a *Admission) open(who Share) bool {
	return (who.Most == 0 || a.running.by[who.Client] < int64(who.Most)) && a.running.open(who, 1)
}

// Enter waits for a place, which Leave frees.
func (a *Admission) Enter(ctx context.Context, who Share) error {
	a.mu.Lock()
	at := slices.IndexFunc(a.queues, func(q *queue) bool { return q.client == who.Client })
	if at < 0 && a.open(who) {
		defer a.mu.Unlock()
		return a.running.take(who, 1, running)
	}
	if err := a.queued.take(who, 1, "requests are waiting"); err != nil {
		a.mu.Unlock()
		return err
	}
	if at < 0 {
		at, a.queues = len(a.queues), append(a.queues, &queue{client: who.Client})
	}
	e := &entrant{who, make(chan struct{})}
	q := a.queues[at]
	q.waiting = append(q.waiting, e)
	slices.SortStableFunc(q.waiting, func(x, y *entrant) int { return x.before(y) })
	a.mu.Unlock()
	timer := time.NewTimer(a.wait)
	defer timer.Stop()
	select {
	case <-e.admitted:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.forget(e) {
		if ctx.Err() == nil { // it was admitted after all
			return nil
		}
		a.leave(who.Client)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return Busy("%d requests are running, %d of them this client's, and none has ended in %v", a.running.taken,
		a.running.by[who.Client], a.wait)
}

// forget removes a request from the queue, and reports whether it was there. mu must be held.
func (a *Admission) forget(e *entrant) bool {
	for i, q := range a.queues {
		if j := slices.Index(q.waiting, e); j >= 0 {
			a.queued.give(q.client, 1)
			if q.waiting = slices.Delete(q.waiting, j, j+1); len(q.waiting) == 0 {
				a.queues = slices.Delete(a.queues, i, i+1)
			}
			return true
		}
	}
	return false
}

// Leave frees a place of a client.
func (a *Admission) Leave(client string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leave(client)
}

// leave frees a place and admits queued requests. mu must be held.
func (a *Admission) leave(client string) {
	a.running.give(client, 1)
	for {
		open := slices.DeleteFunc(slices.Clone(a.queues), func(q *queue) bool { return !a.open(q.waiting[0].Share) })
		if len(open) == 0 {
			return
		}
		q := slices.MinFunc(open, func(x, y *queue) int { // the first of equals, whose turn it is
			return cmp.Compare(a.running.by[x.client], a.running.by[y.client])
		})
		e := q.waiting[0]
		_ = a.running.take(e.Share, 1, running) // it is open
		a.forget(e)
		if at := slices.Index(a.queues, q); at >= 0 {
			a.queues = append(slices.Delete(a.queues, at, at+1), q)
		}
		close(e.admitted)
	}
}

// Enter waits until the request may run. Call Leave to free its place.
func (c *Call) Enter(a *Admission) error {
	if err := c.Draining(); err != nil {
		return err
	}
	ended, begun := c.Begin(c.Request.Context(), PhaseQueue), time.Now()
	err := a.Enter(c.Request.Context(), c.Share)
	took := time.Since(begun)
	c.Track.queued.Store(int64(took))
	c.Counters.Queued(took)
	ended(PhaseEnd{Err: err})
	if err != nil {
		return fmt.Errorf("waiting for a place: %w", err)
	}
	return nil
}

// Leave frees the request's place.
func (c *Call) Leave(a *Admission) { a.Leave(c.Share.Client) }
