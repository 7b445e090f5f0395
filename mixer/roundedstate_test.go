package mixer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestRoundedState checks that the state of attention with packed weights has keys and values in their precision,
// reports its size, and continues with the same bits after it has been copied, or saved and restored.
func TestRoundedState(t *testing.T) {
	const batch, d, l = 2, 32, 40
	for _, v := range []struct {
		name string
		new  func(Config) (Mixer, error)
		rows int // rows of a position
		of   int // elements of a row
	}{{"attention", AttentionInfo.New, 4, d / 2}, {"window-attention", WindowAttentionInfo.New, 4, d / 2},
		{"bigbird", BigBirdInfo.New, 4, d / 2}, {"mla", MLAInfo.New, 1, 4*d/2 + d/4}} {
		for p, row := range map[engine.Precision]int{engine.BF16: 2 * v.of, engine.Int8: v.of + 4} {
			t.Run(v.name+"/"+p.String(), func(t *testing.T) {
				mix, err := v.new(Config{DModel: d, NLayer: 1, NumHeads: 2, RotaryDim: 8})
				if err != nil {
					t.Fatal(err)
				}
				nn.InitAll(mix, "", 1)
				before := begin(mix, batch)
				mix.Params("", func(_ string, q *nn.Param) {
					if q.Role == nn.Weight {
						engine.PackTensors(cpu.Backend{}, p, engine.PackRounded, q.Tensor)
					}
				})
				rng, u := rand.New(rand.NewPCG(3, 1)), tensor.New(batch*l, d)
				for i := range u.Data() {
					u.Data()[i] = float32(rng.NormFloat64())
				}
				s := begin(mix, batch)
				s.forward(newTape(), u)
				before.forward(newTape(), u)
				kept := min(l, s.states[0].(*attentionState).most)
				if got, want := s.size(), batch*v.rows*kept*row; got != want {
					t.Errorf("%d bytes, want %d for %d positions", got, want, kept)
				}
				if s.size() >= before.size()*3/4 {
					t.Errorf("%d bytes, where float32 takes %d", s.size(), before.size())
				}
				if got := mix.Traits().Growth; got != v.rows*row && v.name != "window-attention" {
					t.Errorf("it grows by %d bytes a position, want %d", got, v.rows*row)
				}
				restored, copied := s.restored(t), s.clone()
				want := read(s.forward(newTape(), u))
				for what, s := range map[string]*several{"copied": copied, "restored": restored} {
					if !slices.Equal(read(s.forward(newTape(), u)), want) {
						t.Errorf("%s it goes on with other bits", what)
					}
				}
			})
		}
	}
}

// halfStates is a mixer whose states are in bfloat16.
type halfStates struct{ Mixer }

func (m halfStates) NewState() State {
	s := m.Mixer.NewState()
	RoundStates(cpu.Backend{}, s)
	return s
}

// TestHalfStates checks that Mamba-2's states in bfloat16 take half the memory and hold bfloat16 numbers. A sequence
// has the same bits alone, position by position and in stepped rows, after copies, and after saving and restoring.
// Clones that share memory do not affect each other. Results are near those of states in float32.
func TestHalfStates(t *testing.T) {
	for _, options := range []Options{
		{"d_state": "6", "headdim": "4"}, {"d_state": "5", "headdim": "4"},
		{"d_state": "34", "headdim": "8", "ngroups": "2"},
	} {
		mix := variant{build: Mamba2Info.New, cfg: Config{Options: options}}.mixer(t)
		m, d := halfStates{mix}, mix.(*Mamba2)
		const batch, l, steps = 3, 100, 9
		wide, s := begin(mix, batch), begin(m, batch)
		ssm := d.heads * d.opt.HeadDim * d.opt.DState
		if got, want := s.size(), wide.size()-2*batch*ssm; got != want {
			t.Errorf("%v: %d bytes, want %d", options, got, want)
		}
		near := func(what string, got, want []float32) {
			t.Helper()
			sum, off := 0.0, 0.0
			for i, x := range want {
				sum, off = sum+float64(x*x), off+float64((got[i]-x)*(got[i]-x))
			}
			if !(off <= 1e-4*sum) {
				t.Errorf("%v: %s: the square of what is off is %g of that of all", options, what, off/sum)
			}
		}
		u := sequences(27, batch, l)
		near("a prompt", read(s.forward(newTape(), u)), read(wide.forward(newTape(), u)))
		shared := &several{m: m, at: s.at, states: Clones(s.states)}
		restored, before := s.restored(t), shared.parts()

		u = sequences(28, batch, steps)
		got := read(s.clone().forward(newTape(), u)) // as a whole
		near("a piece", got, read(wide.clone().forward(newTape(), u)))
		alone := s.clone()
		for at := range steps {
			one := tensor.New(batch, dModel)
			for i := range batch {
				copy(one.Data()[i*dModel:][:dModel], u.Data()[(i*steps+at)*dModel:])
			}
			want := read(wide.forward(newTape(), one))
			x := read(s.forward(newTape(), one))
			near("a step", x, want)
			if !slices.Equal(x, read(restored.forward(newTape(), one))) {
				t.Errorf("%v: restored it goes on with other bits", options)
			}
			for i := range batch {
				r := &Rows{Rows: &engine.Rows{}, States: alone.states[i : i+1]}
				r.Add(1, alone.at+at)
				y := read(m.Forward(newTape(), tensor.FromSlice(one.Data()[i*dModel:][:dModel], 1, dModel), r))
				if !slices.Equal(y, x[i*dModel:][:dModel]) {
					t.Errorf("%v: other bits alone", options)
				}
			}
		}
		stepped := &several{m: m, at: shared.at, states: Clones(shared.states)}
		r := &Rows{Rows: &engine.Rows{}, States: stepped.states}
		for range batch {
			r.AddStepped(steps, stepped.at)
		}
		Run(newTape(), m, u, r)
		for name, x := range s.parts() {
			for _, other := range []*several{alone, restored, stepped} {
				if !slices.Equal(other.parts()[name], x) {
					t.Errorf("%v: another state %s", options, name)
				}
			}
			if !slices.Equal(shared.parts()[name], before[name]) {
				t.Errorf("%v: a clone has changed %s", options, name)
			}
			for _, v := range x {
				if name == "ssm" && math.Float32bits(v)&0xffff != 0 {
					t.Fatalf("%v: found %g, which is no bfloat16", options, v)
				}
			}
		}
	}
}

// TestHalfStatesRecord checks that states become float32 when a tape records, with the gradients of float32 states of
// the same values.
func TestHalfStatesRecord(t *testing.T) {
	mix := variant{build: Mamba2Info.New, cfg: Config{Options: Options{"d_state": "6", "headdim": "4"}}}.mixer(t)
	s := begin(halfStates{mix}, 1)
	s.forward(newTape(), sequences(1, 1, 20))
	wide := &several{m: mix, at: s.at, states: begin(mix, 1).states}
	s.states[0].Tensors(func(name string, x *tensor.Tensor) {
		if err := wide.states[0].Restore(name, x.Shape(), read(x)); err != nil {
			t.Fatal(err)
		}
	})
	u, table, grads := sequences(2, 1, 5), sequences(3, 1, 6), [2][]float32{}
	for i, s := range []*several{s, wide} {
		tape := recording()
		u.SetNeedsGrad(true)
		tape.Backward(tape.LinearCrossEntropy(s.forward(tape, u), table, make([]int32, 5)))
		grads[i] = read(tape.Grad(u))
	}
	if !slices.Equal(grads[0], grads[1]) {
		t.Error("found other gradients")
	}
	for name, x := range s.parts() {
		if !slices.Equal(x, wide.parts()[name]) {
			t.Errorf("found another state %s", name)
		}
	}
}
