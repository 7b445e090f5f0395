package train

import (
	"runtime"
	"time"

	"github.com/hippo-ssm/hippo/internal/status"
)

// The clocks that can measure a time budget.
const (
	WallClock = "wall"
	cpuClock  = "cpu"
)

var Clocks = []string{WallClock, cpuClock}

// budget is the time that a run may train. Only updates use it up: evaluations, samples and checkpoints are free. The
// used time is saved with the checkpoint, so that a resumed run continues with the rest.
type budget struct {
	limit time.Duration        // 0 for none
	used  time.Duration        // by all updates of the run, including those before a resume
	now   func() time.Duration // since an arbitrary moment
}

func newBudget(limit time.Duration, clock string) budget {
	now := sinceStart(time.Now())
	if clock == cpuClock {
		now = cpuShare
	}
	return budget{limit: limit, now: now}
}

func sinceStart(start time.Time) func() time.Duration {
	return func() time.Duration { return time.Since(start) }
}

// cpuShare returns the CPU time of the process divided by its number of cores. It equals wall time if the process has
// the cores to itself and keeps them busy.
func cpuShare() time.Duration { return status.CPUTime() / time.Duration(runtime.GOMAXPROCS(0)) }

// count starts the clock and returns a function that stops it and adds the time to the used time.
func (b *budget) count() (stop func()) {
	start := b.now()
	return func() { b.used += b.now() - start }
}

// share returns the used fraction of the budget, or 0 if there is no budget.
func (b *budget) share() float64 {
	if b.limit == 0 {
		return 0
	}
	return min(1, float64(b.used)/float64(b.limit))
}
