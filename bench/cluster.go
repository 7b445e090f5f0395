package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/text"
)

// Cluster is what the benchmark cluster measures.
type Cluster struct {
	Team    *cluster.Team // of a launch, whose leader this process is; nil for members in this process
	Members int           // of Team
	Wire    string        // that they exchange by
	Rate    float64       // of the network, in bytes per second; 0 if it is not known

	step int // of the team
}

// clusterKey is the key of Options.Cluster in a context.
type clusterKey struct{}

// Exchanges are from exchangeLeast to exchangeMost bytes of float32, each 4 times the one before: 4 KiB to 64 MiB.
const (
	exchangeLeast = 4 << 10
	exchangeMost  = 64 << 20
	exchangeTotal = 256 << 20 // bytes that all exchanges of a size send, within these bounds on their number:
	fewExchanges  = 5
	manyExchanges = 200
	warmExchanges = 3
)

// exchanges are the sizes of exchanges, in numbers, and how many of each there are.
func exchanges(shrink int) (sizes, counts []int) {
	for n := exchangeLeast; n <= exchangeMost; n *= 4 {
		sizes = append(sizes, max(1, n/4/shrink))
		counts = append(counts, warmExchanges+min(max(fewExchanges, exchangeTotal/n/shrink), manyExchanges))
	}
	return sizes, counts
}

// updateMembers are the members that train together.
var updateMembers = []int{1, 2, 4}

// clusterCases measure what members of a cluster reach. Mode "exchange" is a step whose shards are computed in no time,
// one of each member: ms is the median, ms_best the least; mb_per_s is what each sends, 2(n-1)/n of the bytes where n
// is a power of two, in the median time, and of_wire its share of the network's rate. So the smallest tells the latency
// of a step. Mode "updates" is training of the preset tiny in 4 shards by members in this process, beside one alone: of
// is the speed of one alone by theirs. After it all have the same bits, or it is an error.
func clusterCases(shrink int) (cases []Case) {
	sizes, counts := exchanges(shrink)
	for i, n := range sizes {
		cases = append(cases, Case{
			ID: Row{{"bench", "cluster"}, {"mode", "exchange"}, {"bytes", float64(4 * n)}},
			prepare: func(ctx context.Context) (trial, error) {
				return exchangeTrial(ctx, n, counts[i])
			},
		})
	}
	for _, members := range updateMembers {
		cases = append(cases, Case{
			ID: Row{{"bench", "cluster"}, {"mode", "updates"}, {"members", float64(members)}},
			prepare: func(ctx context.Context) (trial, error) {
				return updatesTrial(ctx, members, max(1, 4/shrink), shrink)
			},
		})
	}
	return cases
}

// OfLaunch are the cases that a launch measures: exchanges alone, where there is a team.
func OfLaunch(cases []Case, c Cluster) []Case {
	if c.Team == nil {
		return cases
	}
	return cases[:len(cases)-len(updateMembers)]
}

// idle is a step without computation.
type idle struct{ values []float32 }

func (w *idle) Rows(int, bool) [][]byte { return nil }

func (w *idle) Take(int, []byte) error { return nil }

func (w *idle) Compute(int, func(lo, hi int)) (cluster.Result, error) {
	return cluster.Result{Mean: 1, Weight: 1}, nil
}

func (w *idle) Values(_ cluster.Node, at int, dst []float32) { copy(dst, w.values[at:]) }

// exchangeSums exchanges n numbers count times, from a step on, and returns how many seconds each took.
func exchangeSums(ctx context.Context, t *cluster.Team, members, step, n, count int) (seconds []float64, err error) {
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

// FollowCluster takes part in the exchanges that the leader of a launch measures, which was started with the same
// options.
func FollowCluster(ctx context.Context, w cluster.Wire, members, rounds, shrink int) error {
	t, err := cluster.Join(ctx, w, noState, time.Now)
	if err != nil {
		return errors.Join(err, w.Close())
	}
	step := 0
	sizes, counts := exchanges(shrink)
	for range max(1, rounds) {
		for i, n := range sizes {
			if _, err = exchangeSums(ctx, t, members, step, n, counts[i]); err != nil {
				return errors.Join(err, t.Leave())
			}
			step += counts[i]
		}
	}
	_, err = exchangeSums(ctx, t, members, step, 1, 1) // the leader ends it
	var ended *cluster.EndedError
	if errors.As(err, &ended) && ended.Why == cluster.Finished {
		err = nil
	}
	return errors.Join(err, t.Leave())
}

// noState is the room of a member whose steps need nothing from before.
func noState(_ []byte, n int) ([]float32, error) { return make([]float32, n), nil }

// ClusterHost lets all take part.
var ClusterHost = cluster.Host{
	Check:   func(cluster.Greeting) error { return nil },
	Welcome: func() ([]byte, []float32) { return nil, nil },
	Note:    func(string) {},
}

// inProcess is a team of members on the loopback of this process. follow is a member's life; end ends all.
func inProcess(ctx context.Context, members int, host cluster.Host,
	follow func(cluster.Wire) error) (t *cluster.Team, end func() error, err error) {
	wire, err := cluster.Listen("127.0.0.1:0", cluster.NewKey())
	if err != nil {
		return nil, nil, err
	}
	t = cluster.NewLeader(wire, "leader", host, time.Now)
	var others sync.WaitGroup
	failed := make([]error, members)
	end = func() error {
		err := t.End(cluster.Finished)
		others.Wait()
		return errors.Join(append(failed, err)...)
	}
	for i := 1; i < members; i++ {
		g := cluster.Greeting{Name: fmt.Sprintf("member %d", i)}
		w, err := cluster.Dial(ctx, []string{wire.Address().String()}, wire.Key(), g)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		others.Go(func() {
			var ended *cluster.EndedError
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

// exchangeTrial exchanges n numbers count times, in the launch or between two members of this process.
func exchangeTrial(ctx context.Context, n, count int) (trial, error) {
	here, end := ctx.Value(clusterKey{}).(*Cluster), func() error { return nil }
	if here.Team == nil {
		var err error
		here = &Cluster{Members: 2, Wire: "tcp", Rate: here.Rate}
		here.Team, end, err = inProcess(ctx, here.Members, ClusterHost, func(w cluster.Wire) error {
			t, err := cluster.Join(ctx, w, noState, time.Now)
			if err == nil {
				_, err = exchangeSums(ctx, t, here.Members, 0, n, count+1)
			}
			return errors.Join(err, t.Leave())
		})
		if err != nil {
			return trial{}, err
		}
	}
	var seconds []float64
	run := func() (err error) {
		seconds, err = exchangeSums(ctx, here.Team, here.Members, here.step, n, count)
		here.step += count
		return errors.Join(err, end())
	}
	return trial{runs: []func() error{run}, long: true, fields: func(t []Timing) Row {
		timed := slices.Clone(seconds[warmExchanges:])
		slices.Sort(timed)
		middle, best := timed[len(timed)/2], timed[0]
		sent := 2 * float64(here.Members-1) / float64(here.Members) * 4 * float64(n)
		row := Row{{"members", float64(here.Members)}, {"wire", here.Wire}, {"ms", rounded(1e3 * middle)},
			{"ms_best", rounded(1e3 * best)}, {"mb_per_s", rounded(sent / middle / 1e6)}}
		if here.Rate > 0 {
			row = append(row, Field{"of_wire", rounded(sent / middle / here.Rate)},
				Field{"of_wire_best", rounded(sent / best / here.Rate)})
		}
		return row
	}}, nil
}

// updatesTrial is updates by members in this process, in turn with one alone.
func updatesTrial(ctx context.Context, members, updates, shrink int) (trial, error) {
	alone, _, err := tinyTraining(ctx, shrink)
	if err != nil {
		return trial{}, err
	}
	together, work, err := tinyTraining(ctx, shrink)
	if err != nil {
		return trial{}, err
	}
	t, end, err := inProcess(ctx, members, ClusterHost, func(w cluster.Wire) error {
		return text.Follow(ctx, w, nil, train.Events{})
	})
	if err != nil {
		return trial{}, err
	}
	if err := work.Lead(together, t); err != nil {
		return trial{}, errors.Join(err, end())
	}
	run := func(l *train.Training) func() error {
		return func() error {
			for range updates {
				if err := ctx.Err(); err != nil {
					return err
				}
				if _, _, err := l.Step(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if err := errors.Join(run(alone)(), run(together)()); err != nil { // so that all have their memory
		return trial{}, errors.Join(err, end())
	}
	var runs []func() error
	for range fewest {
		runs = append(runs, run(alone), run(together))
	}
	tokens := float64(updates * updateShards * work.Config.Train.BatchSize * work.Config.Train.SeqLen)
	return trial{runs: runs, long: true, close: func() { _ = end() }, fields: func(t []Timing) Row {
		var cpu, wall [2][]float64
		for i, took := range t {
			cpu[i%2], wall[i%2] = append(cpu[i%2], took.CPU), append(wall[i%2], took.Wall)
		}
		ours := median(cpu[1])
		bits := "same"
		if !sameState(alone, together) {
			bits = "OTHERS"
		}
		return Row{{"wire", "tcp"}, {"tokens_per_s", rounded(tokens / ours)},
			{"of_one", rounded(median(cpu[0]) / ours)},
			{"of_one_wall", rounded(median(wall[0]) / median(wall[1]))}, {"bits", bits}}
	}}, nil
}

// updateShards are the shards of the updates.
const updateShards = 4

// tinyTraining begins a run of the preset tiny.
func tinyTraining(ctx context.Context, shrink int) (*train.Training, *text.Work, error) {
	c, err := text.Preset("tiny")
	if err != nil {
		return nil, nil, err
	}
	c.Train.Shards, c.Train.BatchSize = updateShards, max(1, c.Train.BatchSize/updateShards)
	c.Train.SeqLen = max(16, c.Train.SeqLen/shrink)
	d, err := c.OpenData(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	w, err := text.New(c, d)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	l, err := w.Begin()
	return l, w, err
}

// sameState reports whether weights and moments of two runs have the same bits.
func sameState(a, b *train.Training) bool {
	x, err := a.State()
	y, bad := b.State()
	return err == nil && bad == nil && slices.EqualFunc(x, y, func(v, w float32) bool {
		return math.Float32bits(v) == math.Float32bits(w)
	})
}
