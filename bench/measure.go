package bench

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/hippo-ssm/hippo/internal/status"
)

// Timing holds the times of one call in seconds: the median CPU time of the process divided by the number of threads,
// the median wall time and the least wall time. Most peers use the first, as other processes disturb it less.
type Timing struct {
	CPU, Wall, Best float64
	walls           []float64 // of each repetition, in order
}

// times returns the ratio of t's wall time to that of u, which was timed in turn: the median over the repetitions. A
// disturbance that lasts longer than a repetition slows down both.
func (t Timing) times(u Timing) float64 {
	ratios := make([]float64, len(t.walls))
	for i := range ratios {
		ratios[i] = t.walls[i] / u.walls[i]
	}
	return median(ratios)
}

const (
	fewest, most = 3, 101 // repetitions
	bestOf       = 9      // number of the first repetitions, from which Best is taken
)

// measure times the functions of a trial in turn, on each number of cores, after one call of each to warm up. It
// repeats this for the given seconds per function, and at least as often as the trial requires. A repetition makes as
// many calls as take the time shortest; a long trial makes a single call in all. The results are by number of cores and
// function.
func measure(ctx context.Context, t trial, cores []int, seconds float64) ([][]Timing, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	calls := make([]int, len(t.runs)) // number of calls in a repetition
	for i, f := range t.runs {
		for calls[i] = 1; !t.long; calls[i] *= 2 {
			t, err := stopwatch(f, calls[i])
			if err != nil {
				return nil, err
			}
			if t.Wall*float64(calls[i]) >= shortest.Seconds() {
				break
			}
		}
	}
	n := len(cores) * len(t.runs)
	cpu, wall := make([][]float64, n), make([][]float64, n)
	for start := time.Now(); ; {
		for i := range n {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			threads, run := cores[i/len(t.runs)], i%len(t.runs)
			runtime.GOMAXPROCS(threads)
			took, err := stopwatch(t.runs[run], calls[run])
			if err != nil {
				return nil, err
			}
			cpu[i], wall[i] = append(cpu[i], took.CPU/float64(threads)), append(wall[i], took.Wall)
		}
		done, late := len(wall[0]), time.Since(start).Seconds() >= seconds*float64(n)
		if t.long || done >= most || done >= max(fewest, t.repeats) && late {
			break
		}
	}
	out := make([][]Timing, len(cores))
	for i := range n {
		took := Timing{walls: slices.Clone(wall[i]), Best: slices.Min(wall[i][:min(bestOf, len(wall[i]))])}
		took.CPU, took.Wall = median(cpu[i]), median(wall[i])
		out[i/len(t.runs)] = append(out[i/len(t.runs)], took)
	}
	return out, nil
}

// stopwatch times n calls of f. It returns the CPU time of all threads and the wall time of one call.
func stopwatch(f func() error, n int) (Timing, error) {
	cpu, wall := status.CPUTime(), time.Now()
	for range n {
		if err := f(); err != nil {
			return Timing{}, err
		}
	}
	return Timing{
		CPU:  (status.CPUTime() - cpu).Seconds() / float64(n),
		Wall: time.Since(wall).Seconds() / float64(n),
	}, nil
}

// median sorts x and returns its middle element, the upper one of two.
func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
