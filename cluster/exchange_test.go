package cluster

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestExchangeBegins: what is final of the members' last shards is exchanged while they compute the rest: when half of
// it is final everywhere, its sums are on their way before any member has computed its last shard.
func TestExchangeBegins(t *testing.T) {
	const shards, steps = 3, 3
	size := 64 * chunk
	var waits atomic.Int32
	want, _ := alone(t, size, shards, steps)
	n := NewLocal()
	defer n.Close()
	n.Delay = func(from, to ID) time.Duration { return time.Duration(1+from+2*to) * time.Millisecond }
	// Each of three sends two thirds of the numbers as parts, and its third of the sums to two.
	state, whole := 2*4*size, 3*4*size*(2+2)/3
	halves := func(w *toy) *toy {
		last := -1
		w.went = func(at int, ready func(lo, hi int)) {
			if at > size/2 || last == w.step {
				return
			}
			last = w.step
			waits.Add(1)
			for late := time.Now().Add(10 * time.Second); n.Bytes() < state+w.step*whole+whole/2; ready(0, 0) {
				if time.Sleep(time.Millisecond); time.Now().After(late) {
					t.Errorf("step %d: found no sums of the half that is final", w.step)
					return
				}
			}
		}
		return w
	}
	w := halves(newToy(size, shards))
	team := lead(n.Wire(Greeting{}), w, func(string) {})
	var members sync.WaitGroup
	for range 2 {
		wire := n.Wire(Greeting{Name: "m"})
		members.Go(func() {
			if got, err := followBy(wire, halves(newToy(size, shards)), steps); err != nil {
				t.Error(err)
			} else {
				sameWeights(t, "a member", got.weights, want.weights)
			}
		})
	}
	if _, err := team.Gather(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := w.train(team, steps); err != nil {
		t.Fatal(err)
	}
	sameWeights(t, "the leader", w.weights, want.weights)
	if err := team.End(Finished); err != nil {
		t.Error(err)
	}
	members.Wait()
	if n := waits.Load(); n != shards*steps {
		t.Errorf("found %d computations beside which there was an exchange, want %d", n, shards*steps)
	}
}
