package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func init() { chunk = 64 }

// toy is Work whose gradient depends on the weights, the step and the shard.
type toy struct {
	weights []float32
	step    int
	shards  int
	mu      sync.Mutex // guards nodes, which are sent during the computation
	nodes   map[Node][]float32
	rows    map[int]bool // which shards a member got rows of
	leads   bool
	fails   func(step, shard int) (Result, error)

	// The kept state: each weight has a velocity. Parts have partSize weights. kept holds whole parts, coming those
	// that are still being received.
	split  bool
	kept   map[int][]float32
	coming map[int][]float32
	most   int // the most parts that were kept during a step

	// went, if not nil, is called when the numbers from index at on are final.
	went func(at int, ready func(lo, hi int))
}

func newToy(size, shards int) *toy {
	w := &toy{weights: make([]float32, size), shards: shards, nodes: map[Node][]float32{}, rows: map[int]bool{},
		kept: map[int][]float32{}, coming: map[int][]float32{}}
	for i := range w.weights {
		w.weights[i] = float32(math.Sin(float64(i)))
	}
	return w
}

func (w *toy) Rows(shard int, _ bool) [][]byte { return [][]byte{{byte(w.step), byte(shard)}} }

func (w *toy) Take(shard int, rows []byte) error {
	if !slices.Equal(rows, w.Rows(shard, false)[0]) {
		return fmt.Errorf("rows of shard %d of step %d: found %v", shard, w.step, rows)
	}
	w.rows[shard] = true
	return nil
}

func (w *toy) Compute(shard int, ready func(lo, hi int)) (Result, error) {
	if !w.leads && !w.rows[shard] {
		return Result{}, fmt.Errorf("shard %d has no rows", shard)
	}
	if w.fails != nil {
		if r, err := w.fails(w.step, shard); err != nil || r.Weight > 0 {
			return r, err
		}
	}
	g := make([]float32, len(w.weights))
	rng := rand.New(rand.NewPCG(uint64(w.step), uint64(shard)))
	for i := range g {
		g[i] = w.weights[i]*rng.Float32() + float32(shard)/3
	}
	w.mu.Lock()
	n := Node{1, shard}
	for ; n.Width < w.shards; n = n.Parent() {
		sibling := Node{n.Width, n.At ^ 1}
		if sibling.At*n.Width >= w.shards {
			continue
		}
		other, ok := w.nodes[sibling]
		if !ok {
			break
		}
		delete(w.nodes, sibling)
		add(g, other)
	}
	sum := slices.Clone(g)
	if ready != nil { // numbers become final one after the other
		for i := range g {
			g[i] = float32(math.NaN())
		}
	}
	w.nodes[n] = g
	w.mu.Unlock()
	for hi := len(g); hi > 0 && ready != nil; {
		lo := max(0, hi-1-rand.IntN(len(g)))
		copy(g[lo:hi], sum[lo:hi])
		if ready(lo, hi); w.went != nil {
			w.went(lo, ready)
		}
		hi = lo
	}
	return Result{Mean: float64(w.weights[shard%len(w.weights)]) + rng.Float64(), Weight: float64(1 + shard%3)}, nil
}

func (w *toy) Values(n Node, at int, dst []float32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nodes[n] == nil {
		panic(fmt.Sprintf("found no node %v among %d", n, len(w.nodes)))
	}
	copy(dst, w.nodes[n][at:])
}

// train runs the remaining steps and returns the sum of the losses.
func (w *toy) train(t *Team, steps int) (loss float64, err error) {
	if w.split {
		for part := 0; part < w.Parts() && w.leads; part++ {
			w.kept[part] = nil
		}
		t.Keep(w)
	}
	sum := make([]float32, len(w.weights))
	for w.step < steps {
		clear(w.nodes)
		clear(w.rows)
		out, err := t.Step(context.Background(), w.step, w.shards, 1/float64(1+w.step), w, sum)
		if err != nil {
			return loss, err
		}
		if out.Alone {
			copy(sum, w.nodes[root(w.shards)])
		}
		if err := w.update(t, sum, float32(float64(out.Factor)/float64(out.Count))); err != nil {
			return loss, err
		}
		loss += float64(out.Loss)
		w.step++
	}
	return loss, nil
}

// alone runs the steps with a single member.
func alone(t *testing.T, size, shards, steps int) (*toy, float64) {
	return aloneBy(t, newToy(size, shards), steps)
}

func aloneBy(t *testing.T, w *toy, steps int) (*toy, float64) {
	n := NewLocal()
	defer n.Close()
	w.leads = true
	loss, err := w.train(NewLeader(n.Wire(Greeting{}), "alone", Host{}, n.Now), steps)
	if err != nil {
		t.Fatal(err)
	}
	return w, loss
}

// lead returns the team of a leader that admits everyone.
func lead(wire Wire, w *toy, note func(string)) *Team {
	w.leads = true
	return NewLeader(wire, "lead", Host{
		Check:   func(Greeting) error { return nil },
		Welcome: func() ([]byte, []float32) { return asJSON(w.step), slices.Clone(w.weights) },
		Note:    note,
	}, time.Now)
}

// wantLeader runs the steps of a leader, ends the run and checks that the weights are those of want.
func wantLeader(t *testing.T, team *Team, w *toy, steps int, want *toy) {
	t.Helper()
	if _, err := w.train(team, steps); err != nil {
		t.Fatal(err)
	}
	sameWeights(t, "the leader", w.weights, want.weights)
	if err := team.End(Finished); err != nil {
		t.Error(err)
	}
}

// follow runs a member from joining to leaving.
func follow(wire Wire, size, shards, steps int) (*toy, error) {
	return followBy(wire, newToy(size, shards), steps)
}

func followBy(wire Wire, w *toy, steps int) (*toy, error) {
	t, err := Join(context.Background(), wire, func(body []byte, n int) ([]float32, error) {
		if n != len(w.weights) {
			return nil, fmt.Errorf("found a state of %d, want %d", n, len(w.weights))
		}
		return w.weights, json.Unmarshal(body, &w.step)
	}, time.Now)
	if err != nil {
		return nil, err
	}
	_, err = w.train(t, steps)
	if err == nil && w.split { // others may still need its weights
		_, err = t.Step(context.Background(), w.step, w.shards, 1, w, nil)
		var ended *EndedError
		if errors.As(err, &ended) && ended.Why == Finished {
			err = nil
		}
	}
	return w, errors.Join(err, t.Leave())
}

func sameWeights(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: weight %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// TestAnyMembersSameBits checks that runs in which members are killed, fall silent and join at random moments give the
// weights and losses of a single member, at the leader and at the members that are left. In every second run, two
// members keep each velocity. Such a run ends if both keepers of a part are lost, and goes on if one is.
func TestAnyMembersSameBits(t *testing.T) {
	runs := 500
	if testing.Short() {
		runs = 50
	}
	const steps = 5
	lost, again, whole, moved, orphaned := 0, 0, 0, 0, 0
	for seed := range runs {
		rng := rand.New(rand.NewPCG(7, uint64(seed)))
		size, shards, split := 1+rng.IntN(3*chunk), 1+rng.IntN(9), seed%2 == 1
		odds := 30
		if split {
			size, odds = 3*size, 200 // so that two are rarely lost in a step
		}
		toys := func() *toy {
			w := newToy(size, shards)
			w.split = split
			return w
		}
		want, wantLoss := aloneBy(t, toys(), steps)

		n := NewLocal()
		var mu sync.Mutex // guards rng, which Delay uses
		n.Delay = func(ID, ID) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(rng.IntN(int(time.Second)))
		}
		var members sync.WaitGroup
		ended := make(chan *toy, 100)
		join := func() {
			wire := n.Wire(Greeting{Name: "m"})
			members.Go(func() {
				w, err := followBy(wire, toys(), steps)
				var gone *EndedError
				switch {
				case err == nil:
					ended <- w
				case errors.Is(err, ErrLeaderGone), errors.As(err, &gone): // killed, silent, or too many
				default:
					t.Errorf("seed %d: %v", seed, err)
				}
			})
		}
		next := 1
		harm := func(int) {
			mu.Lock()
			chance, who, long := rng.IntN(odds), ID(1+rng.IntN(next)), time.Duration(rng.IntN(40))*time.Second
			mu.Unlock()
			switch {
			case chance == 0:
				n.Kill(who)
			case chance == 1:
				n.Stop(who, long)
			case chance == 2 && next < 12:
				next++
				join()
			}
		}
		leader := n.Wire(Greeting{})
		first := rng.IntN(4)
		for range first {
			next++
			join()
		}
		w := toys()
		var notes []string
		team := lead(leader, w, func(text string) { notes = append(notes, text) })
		if _, err := team.Gather(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		n.mu.Lock()
		n.Before = harm
		n.mu.Unlock()
		loss, err := w.train(team, steps)
		var orphans *LostPartsError
		if split && errors.As(err, &orphans) {
			orphaned++
			if gone := strings.Count(fmt.Sprint(notes), " gone ") + len(team.lead.lost); gone < 2 {
				t.Errorf("seed %d: %v, when %d were lost", seed, err, gone)
			}
		} else if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		n.mu.Lock()
		n.Before = nil // the end reaches everyone
		n.mu.Unlock()
		if err := team.End(Finished); err != nil {
			t.Fatal(err)
		}
		members.Wait()
		n.Close()
		close(ended)
		if err != nil {
			continue
		}
		if loss != wantLoss {
			t.Errorf("seed %d: the losses add up to %v, want %v", seed, loss, wantLoss)
		}
		sameWeights(t, fmt.Sprintf("seed %d", seed), w.weights, want.weights)
		for m := range ended {
			whole++
			sameWeights(t, fmt.Sprintf("seed %d: a member", seed), m.weights, want.weights)
		}
		for _, text := range notes {
			if strings.Contains(text, "gone") {
				lost++
			}
			if strings.Contains(text, "computed again") {
				again++
			}
			if split && strings.Contains(text, "gone") {
				moved++
			}
		}
	}
	if moved < runs/10 || orphaned > runs/8 {
		t.Errorf("in %d runs %d members were lost that kept parts, and %d ended as both of a part were, want more, "+
			"and fewer", runs, moved, orphaned)
	}
	if lost < runs/2 || again < runs/4 || whole < runs/2 {
		t.Errorf("in %d runs %d members were lost, %d of them in a step, and %d saw the end, want more", runs, lost,
			again, whole)
	}
}

// TestBadShards checks that a loss that is not finite ends the run with the name of the member that computed it, and
// that a member that cannot compute is lost and others compute its shards.
func TestBadShards(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		for _, broken := range []bool{false, true} {
			n := NewLocal()
			w := newToy(300, 4)
			var notes []string
			team := lead(n.Wire(Greeting{}), w, func(text string) { notes = append(notes, text) })
			wire := n.Wire(Greeting{Name: "m"})
			done := make(chan error)
			go func() {
				m := newToy(300, 4)
				m.fails = func(step, shard int) (Result, error) {
					if broken {
						return Result{}, errors.New("disk full")
					}
					m.nodes[Node{2, 1}] = make([]float32, 300)
					return Result{Mean: bad, Weight: 1}, nil
				}
				room := func([]byte, int) ([]float32, error) { return m.weights, nil }
				t, err := Join(context.Background(), wire, room, time.Now)
				if err == nil {
					_, err = m.train(t, 1)
					err = errors.Join(err, t.Leave())
				}
				done <- err
			}()
			if _, err := team.Gather(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			_, err := w.train(team, 1)
			var loss *LossError
			if isLoss := errors.As(err, &loss); isLoss == broken || isLoss && (loss.Member != "m" ||
				!strings.Contains(loss.Error(), fmt.Sprint(bad))) || !isLoss && err != nil {
				t.Errorf("%v, %t: found %v", bad, broken, err)
			}
			all := strings.Join(notes, "")
			if strings.Contains(all, "- m gone at step 1 (it has ended): 2 shards") != broken {
				t.Errorf("%v, %t: the notes are %q", bad, broken, notes)
			}
			if err := team.End("over"); err != nil {
				t.Error(err)
			}
			if err := <-done; err == nil || broken != strings.Contains(err.Error(), "disk full") {
				t.Errorf("%v, %t: the member ends with %v", bad, broken, err)
			}
			n.Close()
		}
	}
}

// TestTooMany checks that a member is turned away with the reason if there is no shard left for it, and that the run
// goes on.
func TestTooMany(t *testing.T) {
	n := NewLocal()
	defer n.Close()
	w := newToy(10, 2)
	team := lead(n.Wire(Greeting{}), w, func(string) {})
	done := make(chan error)
	for range 2 {
		wire := n.Wire(Greeting{Name: "m"})
		go func() {
			_, err := follow(wire, 10, 2, 2)
			done <- err
		}()
	}
	if _, err := team.Gather(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := w.train(team, 2); err != nil {
		t.Fatal(err)
	}
	if err := team.End(Finished); err != nil {
		t.Error(err)
	}
	all := fmt.Sprint(<-done, <-done)
	if !strings.Contains(all, "m: found 3 members for 2 shards, want at most as many") ||
		!strings.Contains(all, "<nil>") {
		t.Errorf("the members end with %s", all)
	}
}

// TestWhoIsLost checks which member is dropped if a new member cannot reach an old one: the new one if the old one is
// alive, otherwise the old one.
func TestWhoIsLost(t *testing.T) {
	for _, killed := range []bool{false, true} {
		n := NewLocal()
		team := lead(n.Wire(Greeting{}), newToy(1, 3), nil)
		was, is := n.Wire(Greeting{}), n.Wire(Greeting{})
		receive := func(w Wire, kind Kind) Message {
			for {
				if m, err := w.Receive(t.Context()); err != nil || m.Kind == kind {
					return m
				}
			}
		}
		hear := func(kind Kind) {
			if err := team.leadTake(receive(team.wire, kind)); err != nil && !errors.Is(err, errAgain) {
				t.Fatal(err)
			}
		}
		team.members = append(team.members, Member{ID: was.Self(), Name: "old"}, Member{ID: is.Self(), Name: "new"})
		team.lead.speed[was.Self()] = 1
		is.Send(Lead, Message{Kind: Lost, Node: int(was.Self()), Body: []byte("reset")})
		hear(Lost)
		asked := receive(was, Alive)
		want := []ID{Lead, was.Self()}
		if killed {
			n.Kill(was.Self())
			want[1] = is.Self()
		} else {
			member := &Team{wire: was}
			asked.From = Lead
			if _, err := member.take(asked, nil); err != nil {
				t.Fatal(err)
			}
			hear(Alive)
			if got := string(receive(is, End).Body); got != "new cannot reach old: reset" {
				t.Errorf("the new member hears %q", got)
			}
		}
		hear(Gone)
		var got []ID
		for _, m := range team.members {
			got = append(got, m.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("killed %v: the members are %v, want %v", killed, got, want)
		}
		n.Close()
	}
}
