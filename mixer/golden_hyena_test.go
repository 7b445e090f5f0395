package mixer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// hyenaConfig returns a configuration of Hyena with options given as names and values.
func hyenaConfig(options ...string) Config {
	c := Config{Options: Options{}}
	for i := 0; i < len(options); i += 2 {
		c.Options[options[i]] = options[i+1]
	}
	return c
}

// goldenHyena returns the operator of a golden case. Settings that the case lacks are those of the official
// constructor.
func goldenHyena(t *testing.T, c golden.Case) *Hyena {
	t.Helper()
	var cfg map[string]any
	c.Config(&cfg)
	width := c.Shape("param/filter_fn.pos_emb.z")[2]
	o := hyenaConfig("emb_dim", strconv.Itoa(width), "w", "1", "train_pos_emb", "true")
	for _, known := range config.Describe(&hyenaOptions{}) {
		if v, ok := cfg[known.Key]; ok {
			o.Options[known.Key] = fmt.Sprint(v)
		}
	}
	o.DModel, o.NLayer = int(cfg["d_model"].(float64)), 1
	m, err := HyenaInfo.New(o)
	if err != nil {
		t.Fatal(err)
	}
	fillGolden(t, c, m)
	for _, name := range c.Names() { // one parameter, which the release names once for each layer of the filter
		if strings.HasPrefix(name, "param/") && strings.HasSuffix(name, ".freq") {
			golden.Close(t, name, read(m.(*Hyena).Filter.Freq.Tensor), c.F64(name), 0)
		}
	}
	return m.(*Hyena)
}

// TestGoldenHyena compares with the official operator of order 2 and 3, its filter and its gradients, its initial
// features and rates, and the operator in steps.
func TestGoldenHyena(t *testing.T) {
	golden.Of(t, "hyena")
	const tol = 1e-5 // the reference itself, run in float32, is off by 2e-6 and in its gradients by 8e-6
	golden.Run(t, "06_hyena", func(t *testing.T, c golden.Case) {
		m := goldenHyena(t, c)
		s := c.Shape("in/x")
		x, rows := leaf(c.F32("in/x"), s[0]*s[1], s[2]), equalRows(s[0], s[1])
		tape := recording()
		golden.Close(t, "filter", read(m.Filter.generate(tape, s[1])), c.F64("out/filter"), tol)
		tape = recording()
		y := m.Forward(tape, x, rows)
		golden.Close(t, "y", read(y), c.F64("out/y"), tol)
		tape.BackwardFrom(y, tensor.FromSlice(c.F32("in/dy"), y.Shape()...))
		golden.Close(t, "gradient of x", gradient(tape, x), c.F64("grad/in/x"), tol)
		m.Params("", func(name string, p *nn.Param) {
			if p.NeedsGrad() {
				golden.Close(t, "gradient of "+name, gradient(tape, p.Tensor), c.F64("grad/"+name), 2*tol)
			}
		})

		start := goldenHyena(t, c)
		nn.InitAll(start, "", 1)
		for name, p := range map[string]*nn.Param{"pos_emb.z": start.Filter.Z, "pos_emb.t": start.Filter.T,
			"modulation.deltas": start.Filter.Deltas} {
			// PyTorch computes them in float32
			golden.Close(t, "start of "+name, read(p.Tensor), c.F64("param/filter_fn."+name), 1e-5)
		}

		plain, st := newTape(), begin(m, s[0])
		steps := make([]float32, 0, y.Len())
		for i := range s[1] {
			steps = append(steps,
				read(st.forward(plain, tensor.FromSlice(positionsOf(read(x), s, i, i+1), s[0], s[2])))...)
		}
		golden.Close(t, "decoded y", steps, swapBatchTime(c.F64("out/y"), s), tol)
	})
}

// TestHyenaContainsH3 checks that Hyena of order 2, with the kernels of two SSMs as filters, is H3: (h_1 * (v ⊙ x_1)) ⊙
// x_0 is SSM_diag(SSM_shift(K) ⊗ V) ⊙ Q with x_0 = Q, v = V, and with the shift's taps as short filter for x_1 =
// SSM_shift(K).
func TestHyenaContainsH3(t *testing.T) {
	const d, taps, l = dModel, 4, 60
	h := variant{build: H3Info.New, cfg: Config{DState: taps, HeadDim: 1}}.mixer(t).(*H3)
	m := variant{build: HyenaInfo.New, cfg: hyenaConfig("l_max", "60", "short_filter_order", "4")}.mixer(t).(*Hyena)
	set := func(p *nn.Param, parts ...[]float32) { p.CopyFrom(slices.Concat(parts...)) }
	q, k, v := h.Q, h.K, h.V
	set(m.In.Weight, read(q.Weight.Tensor), read(k.Weight.Tensor), read(v.Weight.Tensor))
	set(m.In.Bias, read(q.Bias.Tensor), read(k.Bias.Tensor), read(v.Bias.Tensor))
	set(m.Out.Weight, read(h.Out.Weight.Tensor))
	set(m.Out.Bias, read(h.Out.Bias.Tensor))
	// The shift's taps are Σ_j B[j] C[i+j], with D added at once. The filter's last tap is that of the newest input.
	short := make([]float32, 3*d*taps)
	bw, cw, dw := read(h.Shift.B.Tensor), read(h.Shift.C.Tensor), read(h.Shift.D.Tensor)
	for c := range d {
		for i := range taps {
			sum := 0.0
			for j := range taps - i {
				sum += float64(bw[c*taps+j]) * float64(cw[c*taps+i+j])
			}
			short[(d+c)*taps+taps-1-i] = float32(sum)
		}
		short[(d+c)*taps+taps-1] += dw[c]
		short[c*taps+taps-1], short[(2*d+c)*taps+taps-1] = 1, 1
	}
	set(m.ShortWeight, short)
	set(m.ShortB, make([]float32, 3*d))
	set(m.Filter.D, read(h.D.Tensor))
	tape := newTape()
	m.Filter.cached.Store(&cachedKernels{tape.Engine(), m.Filter.versions(),
		[]*tensor.Tensor{tape.KernelRows(tape.DiagKernel(h.Diag.System(tape), l), d)}})
	u := sequences(1, 2, l)
	near(t, "y", read(m.Forward(tape, u, equalRows(2, l))), read(h.Forward(tape, u, equalRows(2, l))), 2e-5)
}

// TestHyenaAnyLength checks that in a sequence longer than l_max, a position sees the last l_max inputs of each long
// convolution.
func TestHyenaAnyLength(t *testing.T) {
	const l = 300
	build := func(lMax string) *Hyena {
		return variant{build: HyenaInfo.New, cfg: hyenaConfig("l_max", lMax, "modulate", "false")}.mixer(t).(*Hyena)
	}
	short, long := build("50"), build("400")
	var from []*nn.Param
	short.Params("", func(_ string, p *nn.Param) { from = append(from, p) })
	i := 0
	long.Params("", func(name string, p *nn.Param) {
		if p != long.Filter.Z && p != long.Filter.T {
			p.CopyFrom(read(from[i].Tensor))
		}
		i++
	})
	tape := newTape()
	k := short.Filter.kernels(tape, l)[0]
	if k.Dim(0) != 50 {
		t.Fatalf("the filter has %d taps", k.Dim(0))
	}
	taps := l + tape.Ahead()
	padded := make([]float32, taps*dModel)
	copy(padded, read(k))
	long.Filter.cached.Store(&cachedKernels{tape.Engine(), long.Filter.versions(),
		[]*tensor.Tensor{tensor.FromSlice(padded, taps, dModel)}})
	u := sequences(3, 2, l)
	near(t, "y", read(short.Forward(tape, u, equalRows(2, l))), read(long.Forward(tape, u, equalRows(2, l))), chunkTol)
}

// TestHyenaKeep checks that after Keep(n), a long convolution sees n inputs before the next one.
func TestHyenaKeep(t *testing.T) {
	m := variant{build: HyenaInfo.New, cfg: hyenaConfig("l_max", "100")}.mixer(t).(*Hyena)
	_, s := chunked(m, sequences(2, 2, 20), []int{20}, never)
	whole := s.clone()
	s.keep(3)
	if got, want := whole.size()-s.size(), 17*2*dModel*4; got != want {
		t.Errorf("Keep(3) of 20 frees %d bytes, want %d", got, want)
	}
	for _, x := range whole.states { // dropped inputs act as zeros
		long := &x.(*hyenaState).long[0]
		u := read(long.U)
		clear(u[:17*dModel])
		long.U.CopyFrom(u)
	}
	near(t, "y after Keep", next(s, 5), next(whole, 5), 1e-6)
}

// TestHyenaCachesItsFilter checks that kernels are computed once for unchanged parameters, by any number of goroutines,
// and again when a parameter changes or a longer kernel is needed.
func TestHyenaCachesItsFilter(t *testing.T) {
	m := variant{build: HyenaInfo.New, cfg: hyenaConfig("l_max", "200")}.mixer(t).(*Hyena)
	u := sequences(1, 1, 50)
	want := read(m.Forward(newTape(), u, equalRows(1, 50)))
	k := m.Filter.cached.Load()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if y := read(m.Forward(newTape(), u, equalRows(1, 50))); !slices.Equal(y, want) {
				t.Error("another goroutine gets another y")
			}
		})
	}
	group.Wait()
	if m.Filter.cached.Load() != k {
		t.Error("the kernels were computed again")
	}
	m.Forward(newTape(), sequences(1, 1, 190), equalRows(1, 190))
	if longer := m.Filter.cached.Load(); longer == k || longer.k[0].Dim(0) != 200 {
		t.Error("the kernels were not made longer")
	}
	m.Filter.Freq.Changed()
	k = m.Filter.cached.Load()
	m.Forward(newTape(), u, equalRows(1, 50))
	if m.Filter.cached.Load() == k {
		t.Error("the kernels of other parameters were taken")
	}
}

// TestHyenaStart checks that the window begins at 1 + shift and falls to target within a fraction of l_max between the
// two given ones.
func TestHyenaStart(t *testing.T) {
	m := variant{build: HyenaInfo.New, cfg: hyenaConfig("l_max", "101", "fast_decay_pct", "0.5", "slow_decay_pct", "1",
		"target", "0.125", "shift", "0.25")}.mixer(t).(*Hyena)
	nn.InitAll(m, "", 1)
	ones := tensor.New(101, dModel)
	for i := range ones.Data() {
		ones.Data()[i] = 1
	}
	tape := newTape()
	w := read(tape.DecayWindow(ones, m.Filter.T.Tensor, m.Filter.Deltas.Tensor, m.Filter.shift))
	for _, c := range []struct {
		at, channel int
		want        float64
	}{{0, 0, 1.25}, {0, dModel - 1, 1.25}, {100, 0, 0.375}, {50, dModel - 1, 0.375}} {
		if got := float64(w[c.at*dModel+c.channel]); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("the window of channel %d at %d is %g, want %g", c.channel, c.at, got, c.want)
		}
	}
}
