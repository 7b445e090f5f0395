package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/text"
)

// Cluster holds the options of the benchmark cluster.
type Cluster struct {
	Team    *cluster.Team // team of a launch whose leader is this process; nil for members in this process
	Members int           // number of members of Team
	Wire    string        // wire over which they exchange
	Rate    float64       // rate of the network in bytes per second; 0 if unknown

	step int // step of the team
}

// clusterKey is the key of Options.Cluster in a context.
type clusterKey struct{}

// Exchanges have sizes from exchangeLeast to exchangeMost bytes of float32, each 4 times the one before: 4 KiB to 64
// MiB.
const (
	exchangeLeast = 4 << 10
	exchangeMost  = 64 << 20
	exchangeTotal = 256 << 20 // bytes that all exchanges of a size send, within these bounds on their number:
	fewExchanges  = 5
	manyExchanges = 200
	warmExchanges = 3
)

// exchangeCount returns the number of exchanges of the given size.
func exchangeCount(bytes, shrink int) int {
	return warmExchanges + min(max(fewExchanges, exchangeTotal/(bytes*shrink*shrink)), manyExchanges)
}

// updateMembers holds the numbers of members that train together.
var updateMembers = []int{1, 2, 4}

// clusterCases measure members of a cluster. Mode "exchange" is a step whose shards take no time to compute, one for
// each member: ms is the median and ms_best the least time; mb_per_s is what each member sends, 2(n-1)/n of the bytes
// if n is a power of two, in the median time; and of_wire is its share of the network's rate. So the smallest exchange
// shows the latency of a step. Mode "updates" is training of the preset tiny in 4 shards by members in this process, in
// turn with one member alone: of_one is the ratio of their speed to that of one alone, and bits is "same" if both runs
// end with the same bits, and "OTHERS" if not.
func clusterCases(shrink int) (cases []Case) {
	for bytes := exchangeLeast; bytes <= exchangeMost; bytes *= 4 {
		n := max(1, bytes/4/shrink)
		cases = append(cases, Case{
			ID: Row{{"bench", "cluster"}, {"mode", "exchange"}, {"bytes", float64(4 * n)}},
			prepare: func(ctx context.Context) (trial, error) {
				return exchangeTrial(ctx, n, exchangeCount(4*n, shrink))
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

// OfLaunch returns the cases that a launch measures, which are only exchanges.
func OfLaunch(cases []Case) ([]Case, error) {
	cases = slices.DeleteFunc(cases, func(c Case) bool { return exchanged(c) == 0 })
	if len(cases) == 0 {
		return nil, errors.New("only: found no exchange, want one for a launcher, such as bytes=4194304")
	}
	return cases, nil
}

// exchanged returns the size of the exchanges of a case in bytes, or 0 if it has none.
func exchanged(c Case) int {
	bytes, _ := c.ID.Get("bytes")
	n, _ := bytes.(float64)
	return int(n)
}

// FollowCluster takes part in the exchanges that the leader of a launch measures. The leader must have been started
// with the same options. cases are those that OfLaunch returns.
func FollowCluster(ctx context.Context, w cluster.Wire, members, rounds, shrink int, cases []Case) error {
	t, err := cluster.Join(ctx, w, cluster.NoState, time.Now)
	if err != nil {
		return errors.Join(err, w.Close())
	}
	step := 0
	for range rounds {
		for _, c := range cases {
			bytes := exchanged(c)
			count := exchangeCount(bytes, shrink)
			if _, err = cluster.ExchangeSums(ctx, t, members, step, bytes/4, count); err != nil {
				return errors.Join(err, t.Leave())
			}
			step += count
		}
	}
	_, err = cluster.ExchangeSums(ctx, t, members, step, 1, 1) // the leader ends this one
	var ended *cluster.EndedError
	if errors.As(err, &ended) && ended.Why == cluster.Finished {
		err = nil
	}
	return errors.Join(err, t.Leave())
}

// exchangeTrial exchanges n numbers count times, in the launch or between two members of this process.
func exchangeTrial(ctx context.Context, n, count int) (trial, error) {
	here, end := ctx.Value(clusterKey{}).(*Cluster), func() error { return nil }
	if here.Team == nil {
		var err error
		here = &Cluster{Members: 2, Wire: "tcp", Rate: here.Rate}
		here.Team, end, err = cluster.Loopback(ctx, here.Members, cluster.AnyHost, func(w cluster.Wire) error {
			t, err := cluster.Join(ctx, w, cluster.NoState, time.Now)
			if err == nil {
				_, err = cluster.ExchangeSums(ctx, t, here.Members, 0, n, count+1)
			}
			return errors.Join(err, t.Leave())
		})
		if err != nil {
			return trial{}, err
		}
	}
	var seconds []float64
	run := func() (err error) {
		seconds, err = cluster.ExchangeSums(ctx, here.Team, here.Members, here.step, n, count)
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

// updatesTrial measures updates by members in this process, in turn with one member alone.
func updatesTrial(ctx context.Context, members, updates, shrink int) (trial, error) {
	alone, _, err := tinyTraining(ctx, shrink)
	if err != nil {
		return trial{}, err
	}
	together, work, err := tinyTraining(ctx, shrink)
	if err != nil {
		return trial{}, err
	}
	t, end, err := cluster.Loopback(ctx, members, cluster.AnyHost, func(w cluster.Wire) error {
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
	if err := errors.Join(run(alone)(), run(together)()); err != nil { // so that both have allocated their memory
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

// updateShards is the number of shards of the updates.
const updateShards = 4

// tinyTraining returns a new training run of the preset tiny.
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
