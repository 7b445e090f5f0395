package cluster

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestExchangeBegins checks that the final numbers of the members' last shards are exchanged while the members compute
// the rest. When half of the numbers are final at all members, their sums are sent before any member has computed its
// last shard.
func TestExchangeBegins(t *testing.T) {
	const shards, steps = 3, 3
	size := 64 * chunk
	var waits atomic.Int32
	want, _ := alone(t, size, shards, steps)
	n := NewLocal()
	defer n.Close()
	n.Delay = func(from, to ID) time.Duration { return time.Duration(1+from+2*to) * time.Millisecond }
	// Each of the three members sends two thirds of the numbers as parts, and its third of the sums to two members.
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
	wantLeader(t, team, w, steps, want)
	members.Wait()
	if n := waits.Load(); n != shards*steps {
		t.Errorf("found %d computations beside which there was an exchange, want %d", n, shards*steps)
	}
}

// TestExchangeVolume checks that two members that hold half of the tree each send as many numbers as in a ring:
// 2(n−1)/n of them.
func TestExchangeVolume(t *testing.T) {
	size := 64 * chunk
	n := NewLocal()
	defer n.Close()
	w := newToy(size, 2)
	team := lead(n.Wire(Greeting{}), w, func(string) {})
	wire := n.Wire(Greeting{Name: "m"})
	done := make(chan error)
	go func() {
		_, err := follow(wire, size, 2, 3)
		done <- err
	}()
	if _, err := team.Gather(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := w.train(team, 1); err != nil { // the member gets its state
		t.Fatal(err)
	}
	before := n.Bytes()
	if _, err := w.train(team, 3); err != nil {
		t.Fatal(err)
	}
	const members, both = 2, 2 // each of the two members sends
	got, want := (n.Bytes()-before)/2, both*2*(members-1)*4*size/members
	if got < want || got > want+4000 {
		t.Errorf("a step sends %d bytes, want about %d", got, want)
	}
	if most, traffic := Volume(2, members, 32); most != 1 || both*traffic*4*float64(size) != float64(want) {
		t.Errorf("predicted %d shards and %g bytes a byte, want 1 and %d bytes in all", most, traffic, want)
	}
	if err := errors.Join(team.End(Finished), <-done); err != nil {
		t.Error(err)
	}
}

// TestVolume checks that Volume predicts the traffic of a ring if runs are whole subtrees, and more otherwise. Of 16
// shards on three machines, the second computes shards 5 to 10, which are 4 nodes: 5, 6+7, 8+9 and 10.
func TestVolume(t *testing.T) {
	for _, c := range []struct {
		shards, members, most int
		traffic               float64
	}{{16, 1, 16, 0}, {16, 4, 4, 1.5}, {16, 16, 1, 2 * 15. / 16}, {3, 2, 2, 1}, {16, 3, 6, 5 * 2. / 3}} {
		most, traffic := Volume(c.shards, c.members, 32)
		if most != c.most || math.Abs(traffic-c.traffic) > 1e-12 {
			t.Errorf("%d shards on %d: %d shards, %g bytes a byte, want %d and %g", c.shards, c.members, most, traffic,
				c.most, c.traffic)
		}
	}
}
