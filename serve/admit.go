package serve

import (
	"context"
	"sync/atomic"
	"time"
)

// admission bounds how many requests run, and how many wait for that.
type admission struct {
	places  chan struct{} // of those that run
	waiting atomic.Int64
	most    int64
	wait    time.Duration
}

func newAdmission(o Options) *admission {
	return &admission{places: make(chan struct{}, o.Concurrent), most: int64(o.Queue), wait: o.QueueWait}
}

// enter waits for a place, which leave gives back. Those that come first are let in first.
func (a *admission) enter(ctx context.Context) error {
	select {
	case a.places <- struct{}{}:
		return nil
	default:
	}
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > a.most {
		return busy("%d requests are running and %d are waiting, as many as may", cap(a.places), a.most)
	}
	timer := time.NewTimer(a.wait)
	defer timer.Stop()
	select {
	case a.places <- struct{}{}:
		return nil
	case <-timer.C:
		return busy("%d requests are running, and none has ended in %v", cap(a.places), a.wait)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *admission) leave() { <-a.places }
