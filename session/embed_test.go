package session

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
)

// pooled computes an embedding by its formula, from the hidden states of one call of the model for the whole text.
func pooled(m *model.Model, ids []int32, p Pooling, n int) []float64 {
	tape := autograd.NewTape(cpu.Backend{})
	hidden := m.Forward(tape, ids, model.OneRow(len(ids), m.NewState()))
	d := m.Config.DModel
	x := make([]float32, len(ids)*d)
	hidden.CopyTo(x)
	if p == PoolLast {
		x = x[len(x)-d:]
	}
	out, square := make([]float64, n), 0.0
	for i := range out {
		for at := i; at < len(x); at += d {
			out[i] += float64(x[at]) / float64(len(x)/d)
		}
		square += out[i] * out[i]
	}
	for i := range out {
		out[i] /= math.Sqrt(square)
	}
	return out
}

// TestEmbedIsTheFormula checks that embeddings of short and long texts are the mean, or the last, of the hidden states,
// truncated if requested, of length 1.
func TestEmbedIsTheFormula(t *testing.T) {
	const rounding = 2e-5 // difference of hidden states computed in one piece and in several
	m := language(t, "h3,attention,mamba")
	d := m.Config.DModel
	for _, n := range []int{1, 7, 2*Chunk(m) + 5} {
		ids := text(1, n)
		for _, p := range []Pooling{PoolMean, PoolLast} {
			for _, cut := range []int{0, 1, d / 2, d} {
				got, err := Embed(t.Context(), m, EmbedOptions{Pooling: p, Dimensions: cut}, ids)
				if err != nil {
					t.Fatal(err)
				}
				want := pooled(m, ids, p, cmp.Or(cut, d))
				if len(got) != 1 || len(got[0]) != len(want) {
					t.Fatalf("%d ids, %s, %d dimensions: %d numbers, want %d", n, p, cut, len(got[0]), len(want))
				}
				for i, x := range want {
					if math.Abs(float64(got[0][i])-x) > rounding {
						t.Fatalf("%d ids, %s, %d dimensions: number %d is %v, want %v", n, p, cut, i, got[0][i], x)
					}
				}
			}
		}
	}
}

// TestEmbedAmongOthers checks that an embedding has the same bits alone and from a scheduler that serves other requests
// at the same time.
func TestEmbedAmongOthers(t *testing.T) {
	m := language(t, "h3,attention,mamba")
	all := [][]int32{text(1, 3), text(1, 2*Chunk(m)+5), text(1, 40), text(1, 1), text(1, Chunk(m))}
	var alone [][]float32
	for _, ids := range all {
		one, err := Embed(t.Context(), m, EmbedOptions{}, ids)
		if err != nil {
			t.Fatal(err)
		}
		alone = append(alone, one[0])
	}
	s := NewScheduler(m, SchedulerOptions{})
	defer s.Close()
	var others sync.WaitGroup
	for i := range 4 {
		others.Go(func() {
			left := 50
			err := s.Run(t.Context(), &Request{
				Session: generate.NewBatch(m, 1), Segments: []Segment{{IDs: text(1, 30+i)}}, Client: "writer",
				Next: func([]float32) (int32, bool, error) { left--; return int32(left), left > 0, nil },
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 3 {
		got, err := Embed(t.Context(), m, EmbedOptions{Runner: s}, all...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if !slices.Equal(got[i], alone[i]) {
				t.Errorf("text %d has other bits among others", i)
			}
		}
	}
	others.Wait()
}

// breaks is a Runner whose Run panics.
type breaks struct{}

func (breaks) Run(context.Context, *Request) error { panic("broken") }

// TestEmbedRefuses checks that invalid texts and options, a context that is done, and a closed scheduler are errors.
func TestEmbedRefuses(t *testing.T) {
	m := language(t, "h3,attention,mamba")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	s := NewScheduler(m, SchedulerOptions{})
	s.Close()
	for name, o := range map[string]EmbedOptions{"pooling": {Pooling: "max"}, "dimensions": {Dimensions: 1e6}} {
		if _, err := Embed(t.Context(), m, o, text(1, 1)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, ids := range [][]int32{nil, {-1}, {vocab}} {
		if _, err := Embed(t.Context(), m, EmbedOptions{}, text(1, 1), ids); err == nil {
			t.Errorf("ids %v: no error", ids)
		}
	}
	if _, err := Embed(done, m, EmbedOptions{}, text(1, 1), text(1, 2)); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: %v", err)
	}
	if _, err := Embed(t.Context(), m, EmbedOptions{Runner: s}, text(1, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed scheduler: %v", err)
	}
	var broken *PanicError
	if _, err := Embed(t.Context(), m, EmbedOptions{Runner: breaks{}}, text(1, 1)); !errors.As(err, &broken) {
		t.Errorf("a runner that panics: %v", err)
	}
	if _, err := unit([]float64{1, math.NaN()}); !errors.Is(err, errNoNumbers) {
		t.Errorf("a vector with NaN: %v", err)
	}
}

// TestEmbedTokensIsTheFormula checks that the vector of each id is the hidden state of one call of the model, scaled to
// length 1, that the last one equals the embedding of PoolLast, and that an error of visit ends the call.
func TestEmbedTokensIsTheFormula(t *testing.T) {
	const rounding = 2e-4 // difference of a hidden state, due to a convolution of another length
	m := language(t, "h3,attention,mamba")
	ids := text(1, 2*Chunk(m)+5)
	for _, o := range []EmbedOptions{{}, {Dimensions: 3}} {
		n := 0
		err := EmbedTokens(t.Context(), m, o, ids, func(at int, v []float32) error {
			if at != n {
				t.Fatalf("place %d after %d", at, n-1)
			}
			if n++; at%29 != 0 && at < len(ids)-1 { // checks only some ids
				return nil
			}
			for i, want := range pooled(m, ids[:n], PoolLast, cmp.Or(o.Dimensions, m.Config.DModel)) {
				if math.Abs(float64(v[i])-want) > rounding {
					t.Fatalf("place %d, number %d is %v, want %v", at, i, v[i], want)
				}
			}
			return nil
		})
		if err != nil || n != len(ids) {
			t.Fatalf("%d of %d, %v", n, len(ids), err)
		}
	}
	full := errors.New("full")
	n := 0
	err := EmbedTokens(t.Context(), m, EmbedOptions{}, ids, func(int, []float32) error { n++; return full })
	if !errors.Is(err, full) || n != 1 {
		t.Errorf("after %d: %v", n, err)
	}
	if err := EmbedTokens(t.Context(), m, EmbedOptions{Dimensions: -1}, ids, nil); err == nil {
		t.Error("-1 dimensions: no error")
	}
}
