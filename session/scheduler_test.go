package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/sample"
	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

const (
	servedVocab = 13
	servedChunk = 8
	servedMix   = "h3,attention,s4d,h3"
)

// servedModel returns a small model of these layers whose probabilities differ clearly.
func servedModel(t testing.TB, layers string, p engine.Precision) *model.Model {
	t.Helper()
	m := toymodel.New(t, layers, servedVocab)
	if err := m.Pack(p); err != nil {
		t.Fatal(err)
	}
	return m
}

// wish describes a request of a test.
type wish struct {
	seed     uint64
	segments []Segment
	draws    int // number of ids to sample
	priority int
}

// wishOf returns a random wish that depends only on the seed.
func wishOf(seed uint64) wish {
	rng := rand.New(rand.NewPCG(seed, 9))
	w := wish{seed: seed, draws: rng.IntN(12)}
	for range 1 + rng.IntN(3) {
		s := Segment{IDs: make([]int32, 1+rng.IntN(3*servedChunk)), Drawn: rng.IntN(4) == 0}
		for i := range s.IDs {
			s.IDs[i] = rng.Int32N(servedVocab)
		}
		w.segments = append(w.segments, s)
	}
	return w
}

// served is the result of a wish.
type served struct {
	ids    []int32
	each   []float32 // one of the logits after each id read, if Each was set
	logits []float32
	state  []float32
}

func (s served) equal(other served) bool {
	return slices.Equal(s.ids, other.ids) && slices.Equal(s.each, other.each) &&
		slices.Equal(s.logits, other.logits) && slices.Equal(s.state, other.state)
}

// request returns the request of w, which stores the sampled ids in out.
func (w wish) request(m *model.Model, out *served) *Request {
	s := generate.NewBatch(m, 1)
	s.Chunk = servedChunk
	sampler, err := sample.New(sample.Options{Temperature: 1, Seed: w.seed})
	if err != nil {
		panic(err)
	}
	r := &Request{Session: s, Segments: w.segments, Priority: w.priority,
		Next: func(logits []float32) (int32, bool, error) {
			if len(out.ids) == w.draws {
				return 0, false, nil
			}
			id, err := sampler.Next(logits, nil)
			out.ids = append(out.ids, id)
			return id, true, err
		}}
	if w.seed%8 == 0 {
		for _, s := range w.segments {
			out.each = append(out.each, make([]float32, len(s.IDs))...)
		}
		r.Each = func(at int, logits []float32) { out.each[at] += logits[at%len(logits)] }
	}
	return r
}

// ended stores the final logits and state of the session.
func (out *served) ended(s *generate.Batch) {
	out.logits = slices.Clone(s.Logits(0))
	s.State(0).Tensors(func(_ string, x *tensor.Tensor) {
		at := len(out.state)
		out.state = append(out.state, make([]float32, x.Len())...)
		x.CopyTo(out.state[at:])
	})
}

// alone serves the wish alone, without a scheduler.
func (w wish) alone(t interface{ Fatal(...any) }, m *model.Model) (out served) {
	r := w.request(m, &out)
	if err := (Direct{}).Run(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	out.ended(r.Session)
	return out
}

// onCores runs the rest of a test on n cores.
func onCores(t *testing.T, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// serveAll serves the wishes concurrently, started in the given order, and returns the result of each.
func serveAll(t *testing.T, s *Scheduler, wishes []wish, order []int) []served {
	out := make([]served, len(wishes))
	var all sync.WaitGroup
	for _, i := range order {
		all.Go(func() {
			r := wishes[i].request(s.model, &out[i])
			r.Client = fmt.Sprint(i % 3)
			if err := s.Run(t.Context(), r); err != nil {
				t.Error(err)
			}
			out[i].ended(r.Session)
		})
	}
	all.Wait()
	return out
}

// TestServedAsAlone checks that every request has the same text, logits and state, to the last bit, as when served
// alone, for any model, precision, number and order of requests, limits and number of cores.
func TestServedAsAlone(t *testing.T) {
	type kind struct {
		layers    string
		precision engine.Precision
	}
	kinds := []kind{{"rg-lru", engine.Float32}, {"h3/swiglu-experts(experts=3)", engine.BF16}}
	for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4} {
		for _, layers := range []string{"h3", "mamba", "mamba2", "attention", servedMix} {
			kinds = append(kinds, kind{layers, p})
		}
	}
	for _, k := range kinds {
		t.Run(k.layers+" "+k.precision.String(), func(t *testing.T) {
			m := servedModel(t, k.layers, k.precision)
			var wishes []wish
			var want []served
			for i := range 64 {
				w := wishOf(uint64(i))
				wishes, want = append(wishes, w), append(want, w.alone(t, m))
			}
			for round, o := range []SchedulerOptions{{}, {Running: 5, Rows: 1}, {Running: 64, Rows: 1000}} {
				onCores(t, 1+round%2)
				s := NewScheduler(m, o)
				order := rand.New(rand.NewPCG(uint64(round), 4)).Perm(len(wishes))
				if round == 0 {
					order = order[:1] // alone
				}
				got := serveAll(t, s, wishes, order)
				for _, i := range order {
					if !got[i].equal(want[i]) {
						t.Errorf("round %d: request %d has another answer than alone", round, i)
					}
				}
				s.Close()
			}
		})
	}
}

// TestServedAnyArrivals checks that requests that arrive at any time, some of them canceled at any moment, have the
// same results as when served alone. A canceled one ends at the end of a piece and can continue from there.
func TestServedAnyArrivals(t *testing.T) {
	m := servedModel(t, servedMix, engine.Int8)
	want := map[uint64]served{}
	rapid.Check(t, func(t *rapid.T) {
		s := NewScheduler(m, SchedulerOptions{
			Running: rapid.IntRange(1, 9).Draw(t, "running"), Rows: rapid.IntRange(1, 40).Draw(t, "rows"),
		})
		defer s.Close()
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(rapid.IntRange(1, 3).Draw(t, "cores")))
		var all sync.WaitGroup
		for i := range rapid.IntRange(1, 20).Draw(t, "requests") {
			seed := rapid.Uint64Range(0, 40).Draw(t, "seed")
			w := wishOf(seed)
			w.priority = rapid.IntRange(-1, 1).Draw(t, "priority")
			if _, ok := want[seed]; !ok {
				want[seed] = w.alone(t, m)
			}
			expect, stop := want[seed], rapid.IntRange(0, 40).Draw(t, "stop")
			for range rapid.IntRange(0, 50).Draw(t, "pause") {
				runtime.Gosched()
			}
			all.Go(func() {
				if err := w.serveTwice(s, fmt.Sprint(i%4), stop, expect); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// serveTwice cancels the request when it has read stop ids, and then continues with the rest.
func (w wish) serveTwice(s *Scheduler, client string, stop int, want served) error {
	var out served
	r := w.request(s.model, &out)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.Client = client
	r.Progress = func(read, total int) {
		if read >= stop {
			cancel()
		}
	}
	err := s.Run(ctx, r)
	if read := r.Session.Position(); err == context.Canceled && len(out.ids) == 0 {
		if r.Segments = after(w.segments, read); r.Each != nil {
			each := r.Each
			r.Each = func(at int, logits []float32) { each(read+at, logits) }
		}
		err = s.Run(context.Background(), r)
	}
	if err != nil {
		return err
	}
	if out.ended(r.Session); !out.equal(want) {
		return fmt.Errorf("request %d has another answer than alone", w.seed)
	}
	return nil
}

// after returns the segments after the first n ids.
func after(segments []Segment, n int) []Segment {
	for i, s := range segments {
		if n < len(s.IDs) {
			return append([]Segment{{s.IDs[n:], s.Drawn}}, segments[i+1:]...)
		}
		n -= len(s.IDs)
	}
	return nil
}

// TestServedSessionIsPlain is like TestSessionIsPlain, for sessions that a scheduler serves together with a stream of
// other requests.
func TestServedSessionIsPlain(t *testing.T) {
	games(t, "12")
	for _, layers := range []string{hybrid, "mamba2,window-attention(window=30),s4d", "hyena,attention+h3", "rg-lru"} {
		t.Run(layers, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var others sync.WaitGroup
			servers, models := map[*model.Model]*Scheduler{}, packed(t, layers)
			for _, m := range models {
				s := NewScheduler(m, SchedulerOptions{Running: 3, Rows: 70})
				servers[m] = s
				others.Go(func() {
					for i := uint64(0); ctx.Err() == nil; i++ {
						r := wishOf(i).request(m, new(served))
						if err := s.Run(ctx, r); err != nil && !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						runtime.Gosched()
					}
				})
			}
			plays(t, models, func(m *model.Model) Runner { return servers[m] })
			cancel()
			others.Wait()
			for _, s := range servers {
				s.Close()
			}
		})
	}
	noneLeft(t)
}
