package bench

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// Sessions of the benchmark, and the numbers of ids of the first turn and of each further one.
const (
	storeSessions = 10_000
	storeFirst    = 24
	storeMore     = 8
	storeWorkers  = 4 // concurrent turns
)

// storeCases measure turns of thousands of sessions in one store: for a small model in memory, and for H3-125M's shape,
// attention-free, through a folder (the first argument, or else a temporary one), with memory for a twentieth of the
// sessions. Each session has a first turn and, in another order, a second one, which continues from the stored state.
// p50_ms and p99_ms are those of the second turns by wall time, and fresh_p50_ms that of first ones. lost is the number
// of second turns whose first turn had to be read again, and mixed the number of those whose logits differ from those
// of a session alone. memory_mb is the peak memory of the store.
func storeCases(args []string, shrink int) ([]Case, error) {
	n := storeSessions / shrink
	folder := ""
	switch len(args) {
	case 0:
	case 2:
		var err error
		if n, err = strconv.Atoi(args[1]); err != nil || n < 1 {
			return nil, fmt.Errorf("found %q sessions, want a number of at least 1", args[1])
		}
		folder = args[0]
	case 1:
		folder = args[0]
	default:
		return nil, fmt.Errorf("found %d arguments, want a folder and a number of sessions at most", len(args))
	}
	small := shape{d: 64, layers: 2, vocab: 256}
	large := shape{d: 768 / shrink, layers: 12, vocab: 50264 / shrink}
	return []Case{
		storeCase("small", "memory", n, small, "", false),
		storeCase("H3-125M", "disk", n, large, folder, true),
	}, nil
}

func storeCase(name, place string, n int, s shape, folder string, onDisk bool) Case {
	return Case{
		ID: Row{{"bench", "store"}, {"model", name}, {"precision", engine.Int8.String()}, {"place", place},
			{"sessions", float64(n)}},
		prepare: func(ctx context.Context) (trial, error) {
			m, err := packed(s.build, engine.Int8)
			if err != nil {
				return trial{}, err
			}
			b := &storing{m: m, n: n, folder: folder, onDisk: onDisk}
			return trial{long: true, runs: []func() error{func() error { return b.run(ctx) }}, fields: b.fields}, nil
		},
	}
}

// storing is one trial of storeCases.
type storing struct {
	m      *model.Model
	n      int
	folder string // "" for a temporary one
	onDisk bool

	store        *store.Store
	budget       int64
	seed         maphash.Seed
	sums         []uint64  // of the logits after the second turn of each session
	first, later []float64 // milliseconds of the turns
	most         atomic.Int64
	lost, mixed  atomic.Int64
	rss          uint64
	stats        store.Stats
	readAlone    float64 // median milliseconds of both turns alone
}

// plan returns the segments that a session has read after some turns.
func (b *storing) plan(i, turns int) []session.Segment {
	rng := rand.New(rand.NewPCG(1, uint64(i)))
	plan := []session.Segment{{IDs: randomIDs(rng, storeFirst, b.m.Config.VocabSize)}}
	for range turns - 1 {
		plan = append(plan, session.Segment{IDs: randomIDs(rng, storeMore, b.m.Config.VocabSize)})
	}
	return plan
}

func (b *storing) run(ctx context.Context) error {
	size := int64(b.m.NewState().Size() + 4*b.m.Config.VocabSize + 4096) // and the text
	b.budget = 4 * int64(b.n) * size                                     // marks of both turns, and room
	o := store.Options{Model: b.m, Identity: session.Identity{Model: "bench", Chunk: session.Chunk(b.m)}}
	if b.onDisk {
		b.budget = max(int64(b.n)*size/20, 64*size)
		if b.folder == "" {
			dir, err := os.MkdirTemp("", "hippo-bench-store")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			b.folder = dir
		}
		need := 2*int64(b.n)*size + size // for both turns
		if free, err := disk.Space(b.folder); err == nil && free < need {
			return fmt.Errorf("%s: found %d MB of free space, want %d for the marks of %d sessions", b.folder,
				free>>20, need>>20, b.n)
		}
		o.Bucket = store.Folder(b.folder)
	}
	o.Memory = b.budget
	var failed error
	var once sync.Once
	o.Report = func(err error) { once.Do(func() { failed = err }) }
	var err error
	if b.store, err = store.New(ctx, o); err != nil {
		return err
	}
	b.seed, b.sums = maphash.MakeSeed(), make([]uint64, b.n)
	if b.first, err = b.all(ctx, func(i int) error { return b.turn(ctx, i, 1) }); err != nil {
		return err
	}
	if b.later, err = b.all(ctx, func(i int) error { return b.turn(ctx, i, 2) }); err != nil {
		return err
	}
	b.store.Close()
	runtime.GC()
	b.rss, b.stats, b.store = status.RSS(), b.store.Stats(), nil
	alone, err := b.all(ctx, func(i int) error { return b.check(ctx, i) })
	if err != nil {
		return err
	}
	b.readAlone = quantile(alone, 0.5)
	return failed
}

// all calls f for every session in a random order, with storeWorkers calls at a time, and returns the milliseconds of
// each call.
func (b *storing) all(ctx context.Context, f func(i int) error) ([]float64, error) {
	order := rand.New(rand.NewPCG(2, uint64(len(b.later)))).Perm(b.n)
	took := make([]float64, b.n)
	var next atomic.Int64
	var workers sync.WaitGroup
	errs := make([]error, storeWorkers)
	for w := range storeWorkers {
		workers.Go(func() {
			for ctx.Err() == nil && errs[w] == nil {
				at := int(next.Add(1)) - 1
				if at >= b.n {
					return
				}
				start := time.Now()
				errs[w] = f(order[at])
				took[at] = time.Since(start).Seconds() * 1e3
			}
		})
	}
	workers.Wait()
	for _, err := range append(errs, ctx.Err()) {
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}

// turn opens a session at the end of a turn.
func (b *storing) turn(ctx context.Context, i, turns int) error {
	s, found, err := b.store.Open(ctx, store.Reading{Runner: session.Direct{}, Plan: b.plan(i, turns)})
	if err != nil {
		return err
	}
	if turns > 1 && found.Cached < storeFirst {
		b.lost.Add(1)
	}
	b.sums[i] = b.sum(s)
	for used := b.store.Stats().Memory; ; {
		if most := b.most.Load(); used <= most || b.most.CompareAndSwap(most, used) {
			return nil
		}
	}
}

// check compares a session with one that reads the same ids alone.
func (b *storing) check(ctx context.Context, i int) error {
	s := generate.NewBatch(b.m, 1)
	s.Chunk = session.Chunk(b.m)
	for _, part := range b.plan(i, 2) {
		if err := s.Feed(ctx, part.IDs); err != nil {
			return err
		}
	}
	if b.sum(s) != b.sums[i] {
		b.mixed.Add(1)
	}
	return nil
}

// sum returns a hash of the logits of a session.
func (b *storing) sum(s *generate.Batch) uint64 {
	var h maphash.Hash
	h.SetSeed(b.seed)
	for _, x := range s.Logits(0) {
		bits := math.Float32bits(x)
		h.Write([]byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)})
	}
	return h.Sum64()
}

func (b *storing) fields([]Timing) Row {
	return Row{
		{"p50_ms", rounded(quantile(b.later, 0.5))}, {"p99_ms", rounded(quantile(b.later, 0.99))},
		{"fresh_p50_ms", rounded(quantile(b.first, 0.5))}, {"fresh_p99_ms", rounded(quantile(b.first, 0.99))},
		{"alone_p50_ms", rounded(b.readAlone)},
		{"lost", float64(b.lost.Load())}, {"mixed", float64(b.mixed.Load())},
		{"memory_mb", mebibytes(b.most.Load())}, {"budget_mb", mebibytes(b.budget)}, {"rss_mb", mebibytes(b.rss)},
		{"disk_mb", mebibytes(b.stats.Disk)}, {"loads", float64(b.stats.Loads)}, {"writes", float64(b.stats.Writes)},
	}
}

// quantile returns the quantile of x for a fraction.
func quantile(x []float64, part float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[min(len(x)-1, int(part*float64(len(x))))]
}
