package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// AnyHost is a Host that admits every member, for measurements.
var AnyHost = Host{
	Check:   func(Greeting) error { return nil },
	Welcome: func() ([]byte, []float32) { return nil, nil },
	Note:    func(string) {},
}

// NoState is the room function of Join for members whose steps need no state.
func NoState(_ []byte, n int) ([]float32, error) { return make([]float32, n), nil }

// idle is Work without computation.
type idle struct{ values []float32 }

func (w *idle) Rows(int, bool) [][]byte { return nil }

func (w *idle) Take(int, []byte) error { return nil }

func (w *idle) Compute(int, func(lo, hi int)) (Result, error) { return Result{Mean: 1, Weight: 1}, nil }

func (w *idle) Values(_ Node, at int, dst []float32) { copy(dst, w.values[at:]) }

// ExchangeSums exchanges n numbers count times, in steps from step on, and returns how many seconds each exchange took.
func ExchangeSums(ctx context.Context, t *Team, members, step, n, count int) (seconds []float64, err error) {
	w, sum := &idle{make([]float32, n)}, make([]float32, n)
	for k := range count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		if _, err := t.Step(ctx, step+k, members, 1, w, sum); err != nil {
			return nil, err
		}
		seconds = append(seconds, time.Since(start).Seconds())
	}
	return seconds, nil
}

// Loopback starts a team of members in this process, connected by TLS over the loopback interface. Each member except
// the leader runs follow. end ends the run and waits for the members.
func Loopback(ctx context.Context, members int, host Host, follow func(Wire) error) (t *Team, end func() error,
	err error) {
	wire, err := Listen("127.0.0.1:0", NewKey())
	if err != nil {
		return nil, nil, err
	}
	t = NewLeader(wire, "leader", host, time.Now)
	var others sync.WaitGroup
	failed := make([]error, members)
	end = func() error {
		err := t.End(Finished)
		others.Wait()
		return errors.Join(append(failed, err)...)
	}
	for i := 1; i < members; i++ {
		w, err := Dial(ctx, []string{wire.Address().String()}, wire.Key(), Greeting{Name: fmt.Sprintf("member %d", i)})
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		others.Go(func() {
			var ended *EndedError
			if err := follow(w); !errors.As(err, &ended) {
				failed[i] = err
			}
		})
	}
	if _, err := t.Gather(ctx, members-1); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return t, end, nil
}

// ExchangeCost measures the processor time of an exchange, in seconds for each byte that a member sends, including the
// time to receive one. clock returns the processor time of this process.
func ExchangeCost(ctx context.Context, clock func() time.Duration) (float64, error) {
	const members, n, warm, count = 2, 1 << 20, 2, 8
	t, end, err := Loopback(ctx, members, AnyHost, func(w Wire) error {
		t, err := Join(ctx, w, NoState, time.Now)
		if err == nil {
			_, err = ExchangeSums(ctx, t, members, 0, n, warm+count+1) // the leader ends it
		}
		return errors.Join(err, t.Leave())
	})
	if err != nil {
		return 0, err
	}
	_, err = ExchangeSums(ctx, t, members, 0, n, warm)
	began := clock()
	if err == nil {
		_, err = ExchangeSums(ctx, t, members, warm, n, count)
	}
	took := clock() - began
	return took.Seconds() / (members * count * 4 * n), errors.Join(err, end())
}
