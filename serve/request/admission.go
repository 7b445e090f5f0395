package request

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Admission bounds how many requests run, and how many wait for that.
type Admission struct {
	places  chan struct{} // of those that run
	waiting atomic.Int64
	most    int64
	wait    time.Duration
}

// NewAdmission lets a number of requests run, and others wait for some time.
func NewAdmission(run, queue int, wait time.Duration) *Admission {
	return &Admission{places: make(chan struct{}, run), most: int64(queue), wait: wait}
}

// Running is the number of requests that run.
func (a *Admission) Running() int { return len(a.places) }

// Queued is the number of requests that wait.
func (a *Admission) Queued() int { return int(max(0, a.waiting.Load())) }

// Enter waits for a place, which Leave frees. The first to wait is the first to enter.
func (a *Admission) Enter(ctx context.Context) error {
	select {
	case a.places <- struct{}{}:
		return nil
	default:
	}
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > a.most {
		return Busy("%d requests are running and %d are waiting, as many as may", cap(a.places), a.most)
	}
	timer := time.NewTimer(a.wait)
	defer timer.Stop()
	select {
	case a.places <- struct{}{}:
		return nil
	case <-timer.C:
		return Busy("%d requests are running, and none has ended in %v", cap(a.places), a.wait)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *Admission) Leave() { <-a.places }

// Enter waits until the request may run. Admission.Leave frees its place.
func (c *Call) Enter(a *Admission) error {
	if err := c.Draining(); err != nil {
		return err
	}
	ended, begun := c.Begin(c.Request.Context(), PhaseQueue), time.Now()
	err := a.Enter(c.Request.Context())
	took := time.Since(begun)
	c.Track.queued.Store(int64(took))
	c.Counters.Queued(took)
	ended(PhaseEnd{Err: err})
	if err != nil {
		return fmt.Errorf("waiting for a place: %w", err)
	}
	return nil
}
