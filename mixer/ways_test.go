package mixer

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestBothWaysFormula compares with y[t] = Σ_j k[j] u[t-j] + Σ_j ahead[j] u[t+1+j] + D u[t], GELU, the linear map and
// GLU, including rows longer than the kernel, several systems for each channel, and rows of different lengths.
func TestBothWaysFormula(t *testing.T) {
	lengths := []int{5, 40, 1, 16, 17}
	for _, v := range []variant{
		{"s4", S4Info.New, Config{DState: 6, Options: Options{"l_max": "16"}}, true},
		{"s4 of long kernels", S4Info.New, Config{DState: 6}, true},
		{"s4d", S4DInfo.New, Config{DState: 6, Options: Options{"channels": "2"}}, true},
		{"s4d without a gate", S4DInfo.New, Config{DState: 6, Options: Options{"gate": "false"}}, true},
	} {
		o := Options{"bidirectional": "true"}
		for key, value := range v.cfg.Options {
			o[key] = value
		}
		v.cfg.Options = o
		mix := v.mixer(t)
		var m *s4Layer
		switch mix := mix.(type) {
		case *S4:
			m = &mix.s4Layer
		case *S4D:
			m = &mix.s4Layer
		}
		var taps [][]float32 // response of each system to an impulse, (40, d)
		impulse := tensor.New(40, dModel)
		for c := range dModel {
			impulse.Data()[c] = 1
		}
		for _, s := range m.systems {
			taps = append(taps, read(s.run(newTape(), impulse, tensor.New(dModel), engine.NewRows(40), nil)))
		}
		if len(taps) != 2*len(m.D) {
			t.Fatalf("%s: %d systems for %d skips", v.name, len(taps), len(m.D))
		}
		rows := &Rows{Rows: &engine.Rows{}}
		var u, want []float32
		for i, l := range lengths {
			rows.Add(l, 0)
			x := sequences(uint64(i), 1, l)
			u = append(u, x.Data()...)
			mixed := make(matrix, l)
			for at := range mixed {
				for c, skip := range m.D {
					for ch := range dModel {
						in := func(t int) float64 { return float64(x.Data()[t*dModel+ch]) }
						sum := float64(read(skip.Tensor)[ch]) * in(at)
						for j := range l {
							if j <= at {
								sum += float64(taps[c][j*dModel+ch]) * in(at-j)
							}
							if at+1+j < l {
								sum += float64(taps[len(m.D)+c][j*dModel+ch]) * in(at+1+j)
							}
						}
						mixed[at] = append(mixed[at], sum)
					}
				}
			}
			y := mixed.each(geluOf).each(affine(m.Out))
			if m.opt.Gate {
				y = y.each(func(row []float64) []float64 {
					out := make([]float64, dModel)
					for c := range out {
						out[c] = row[c] / (1 + math.Exp(-row[dModel+c]))
					}
					return out
				})
			}
			for _, x := range y.flat() {
				want = append(want, float32(x))
			}
		}
		near(t, v.name, read(mix.Forward(newTape(), tensor.FromSlice(u, len(u)/dModel, dModel), rows)), want, 1e-5)
		var names []string
		for _, k := range Responses(newTape(), mix, 40) {
			names = append(names, k.Name)
			i := slices.Index([]string{"ssm", "ssm_1", "ahead", "ahead_1"}, k.Name)
			if len(m.D) == 1 && i == 2 {
				i = 1
			}
			if i < 0 {
				t.Fatalf("%s: there is a kernel %s", v.name, k.Name)
			}
			near(t, v.name+": kernel "+k.Name, read(k.Taps), taps[i][:k.Taps.Len()], 1e-5)
			if most := min(40, m.systems[0].longest); k.Taps.Dim(0) != most {
				t.Errorf("%s: kernel %s has %d taps, want %d", v.name, k.Name, k.Taps.Dim(0), most)
			}
		}
		if len(names) != 2*len(m.D) || slices.Contains(names, "ssm_1") != (len(m.D) == 2) {
			t.Errorf("%s: found the kernels %v", v.name, names)
		}
		func() {
			defer func() {
				if got := recover(); got == nil || !strings.Contains(got.(string), "bidirectional") {
					t.Errorf("%s: a state to go on from: found %v, want a panic", v.name, got)
				}
			}()
			mix.Forward(newTape(), sequences(1, 1, 3), &Rows{Rows: engine.NewRows(3), States: Begin(mix.NewState())})
		}()
	}
}

// TestTaps checks that kernels for both ways are as long as the row, or longer by at most an eighth, with few different
// lengths, up to the longest kernel, and that longer rows have none.
func TestTaps(t *testing.T) {
	for most, longest := range map[int]int{1000: 1000, engine.LongestAtOnce: engine.LongestAtOnce,
		engine.LongestAtOnce + 5: engine.LongestAtOnce} {
		m := &s4Layer{systems: []system{{longest: most}}}
		lengths := map[int]bool{}
		for l := 1; l <= longest; l++ {
			n := m.taps(l)
			if n < l || n > longest || n > max(l+l/8, l) {
				t.Fatalf("a row of %d has %d taps, of at most %d", l, n, longest)
			}
			if l <= 16 && n != l {
				t.Errorf("a short row of %d has %d taps", l, n)
			}
			lengths[n] = true
		}
		if most := 17 + 8*17; len(lengths) > most {
			t.Errorf("there are kernels of %d lengths, want at most %d", len(lengths), most)
		}
		if n := m.taps(longest); n != longest {
			t.Errorf("the longest row, of %d, has %d taps", longest, n)
		}
		if n := m.taps(longest + 1); n != 0 {
			t.Errorf("a row of %d has %d taps, want none", longest+1, n)
		}
	}
}

// TestForget checks that after Forget, rows hold no references to states, since a server keeps rows.
func TestForget(t *testing.T) {
	for _, v := range variants() {
		m := v.mixer(t)
		r := &Rows{Rows: engine.EqualRows(2, 9), States: append(Begin(m.NewState()), Begin(m.NewState())...)}
		m.Forward(newTape(), sequences(1, 2, 9), r)
		r.Forget()
		if len(r.States) != 0 {
			t.Errorf("%s: there are %d states", v.name, len(r.States))
		}
		held(t, v.name, reflect.ValueOf(r).Elem())
	}
}

// held reports pointers in the slices of Rows, up to their capacity.
func held(t *testing.T, name string, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() != reflect.Slice {
			continue
		}
		for j := range f.Cap() {
			one := f.Slice(0, f.Cap()).Index(j)
			switch field := v.Type().Field(i).Name; field {
			case "Steps":
			case "parts":
				if !one.IsNil() {
					held(t, name+", a part", one.Elem())
				}
			case "slots", "long":
				for k := range one.Cap() {
					if !one.Slice(0, one.Cap()).Index(k).IsNil() {
						t.Errorf("%s: %s holds a part of a state", name, field)
					}
				}
			default:
				if one.Kind() == reflect.Slice {
					for k := range one.Cap() {
						if !one.Slice(0, one.Cap()).Index(k).IsNil() {
							t.Errorf("%s: %s holds a part of a state", name, field)
						}
					}
				} else if !one.IsNil() {
					t.Errorf("%s: %s holds a part of a state", name, field)
				}
			}
		}
	}
}

// TestRealModesAreKept checks that the parameters of real modes are computed once for unchanged B and C, and again when
// one changes, and that a recording tape computes its own.
func TestRealModesAreKept(t *testing.T) {
	m := variant{build: S4DInfo.New, cfg: Config{DState: 4, Options: Options{"real": "true",
		"train_b": "true"}}}.mixer(t).(*S4D)
	r := &realDiagonal{logDt: m.LogDt.Tensor, logA: m.LogAReal.Tensor, b: m.B.Tensor, c: m.C[0].Tensor,
		zeros: zeros(dModel, 4)}
	tape := newTape()
	first := r.params(tape)
	if again := r.params(newTape()); again != first {
		t.Error("the parameters are made again")
	}
	if recorded := r.params(recording()); recorded == first || !recorded.C.NeedsGrad() || !recorded.B.NeedsGrad() {
		t.Error("a tape that records takes those that are kept, or they want no gradient")
	}
	for _, p := range []*tensor.Tensor{m.B.Tensor, m.C[0].Tensor} {
		p.Fill(2)
		p.Changed()
		next := r.params(newTape())
		if next == first {
			t.Fatal("a change is overlooked")
		}
		first = next
	}
	for i, v := range read(first.B) {
		if v != []float32{2, 0}[i%2] {
			t.Fatalf("B is %v at %d, want pairs of 2 and 0", v, i)
		}
	}
}

// TestClones checks that clones of states of several mixers are equal to the originals and independent of them.
func TestClones(t *testing.T) {
	for _, v := range variants() {
		m := v.mixer(t)
		_, s := chunked(m, sequences(1, 2, 12), []int{12}, never)
		c := &several{m: m, states: Clones(s.states), at: s.at}
		nearStates(t, c, s, 0)
		before := s.parts()
		next(c, 4)
		for name, x := range s.parts() {
			if !slices.Equal(x, before[name]) {
				t.Errorf("%s: a clone that goes on changes %s of the original", v.name, name)
			}
		}
		want := next(s, 4)
		_, again := chunked(m, sequences(1, 2, 12), []int{12}, never)
		if !slices.Equal(want, next(again, 4)) {
			t.Errorf("%s: the original goes on otherwise", v.name)
		}
	}
}

// TestHyenaKernelsAhead checks that without recording there are more taps than requested, a power of two times 64 with
// space for the steps ahead, so that decoding continues with them; exactly as many while a tape records; and never more
// than l_max.
func TestHyenaKernelsAhead(t *testing.T) {
	m := variant{build: HyenaInfo.New, cfg: hyenaConfig("l_max", "600")}.mixer(t).(*Hyena)
	tape := newTape()
	ahead := tape.Ahead()
	for _, n := range []int{1, 64 - ahead, 65 - ahead, 70, 128 - ahead, 129 - ahead, 256 - ahead, 257 - ahead, 520,
		600} {
		m.Filter.cached.Store(nil)
		want := 64
		for want < n+ahead {
			want *= 2
		}
		k := m.Filter.kernels(tape, n)
		if got := k[0].Dim(0); got != min(want, 600) {
			t.Errorf("%d positions: %d taps, want %d", n, got, min(want, 600))
		}
		if again := m.Filter.kernels(tape, n); again[0] != k[0] {
			t.Errorf("%d positions: the kernel is made again", n)
		}
		if got := m.Filter.kernels(recording(), n)[0].Dim(0); got != min(n, 600) {
			t.Errorf("%d positions, recorded: %d taps", n, got)
		}
	}
	if got := m.Filter.kernels(recording(), 700)[0].Dim(0); got != 600 {
		t.Errorf("more positions than l_max: %d taps, want 600", got)
	}
}

// TestHyenaRowsOfAllLengths checks that a call computes the taps needed by the longest sequence, whatever the order of
// rows.
func TestHyenaRowsOfAllLengths(t *testing.T) {
	m := variant{build: HyenaInfo.New, cfg: hyenaConfig("l_max", "300")}.mixer(t).(*Hyena)
	for _, ages := range [][]int{{150, 0}, {0, 150}, {5, 150, 70}} {
		r, want := &Rows{Rows: &engine.Rows{}}, []float32(nil)
		var u []float32
		tape := recording()
		for i, age := range ages {
			s := begin(m, 1)
			if age > 0 {
				s.forward(newTape(), sequences(uint64(i), 1, age))
			}
			piece := sequences(uint64(10+i), 1, 4)
			u = append(u, piece.Data()...)
			want = append(want, read(s.clone().forward(recording(), piece))...)
			r.Add(4, age)
			r.States = append(r.States, s.states[0])
		}
		m.Filter.cached.Store(nil)
		near(t, "y", read(m.Forward(tape, tensor.FromSlice(u, len(u)/dModel, dModel), r)), want, chunkTol)
	}
	for order, n := range map[string]int{"2": 1, "4": 3} {
		m := variant{build: HyenaInfo.New, cfg: hyenaConfig("l_max", "30", "order", order)}.mixer(t)
		for i := range 6 {
			err := m.NewState().Restore("long"+strconv.Itoa(i), []int{2, dModel}, make([]float32, 2*dModel))
			if (err == nil) != (i < n) {
				t.Errorf("order %s: restoring long%d: %v, want %d long convolutions", order, i, err, n)
			}
		}
	}
	for _, c := range []struct {
		shape []int
		want  bool
	}{{[]int{1, dModel}, true}, {[]int{29, dModel}, true}, {[]int{30, dModel}, false}, {[]int{0, dModel}, false},
		{[]int{2, dModel + 1}, false}, {[]int{2 * dModel}, false}, {[]int{1, 2, dModel}, true}} {
		m, n := variant{build: HyenaInfo.New, cfg: hyenaConfig("l_max", "30")}.mixer(t), 1
		for _, k := range c.shape {
			n *= k
		}
		if err := m.NewState().Restore("long0", c.shape, make([]float32, n)); (err == nil) != c.want {
			t.Errorf("inputs of shape %v: found the error %v", c.shape, err)
		}
	}
}

// TestHyenaPrecision checks that filters have the same bits for any precision of the tape, which is not changed.
func TestHyenaPrecision(t *testing.T) {
	m := variant{build: HyenaInfo.New, cfg: hyenaConfig("l_max", "64")}.mixer(t).(*Hyena)
	want := read(m.Filter.generate(newTape(), 64))
	tape := newTape()
	tape.SetPrecision(engine.BF16)
	if got := read(m.Filter.generate(tape, 64)); !slices.Equal(got, want) || tape.Precision() != engine.BF16 {
		t.Errorf("the filter has other bits in bf16, or the tape %v", tape.Precision())
	}
}

// TestGatedConvFormula compares with B, C, x = In(u); y = Out(C · conv1d(B · x)), with and without biases.
func TestGatedConvFormula(t *testing.T) {
	for _, bias := range []string{"false", "true"} {
		m := variant{build: GatedConvInfo.New, cfg: Config{Options: Options{"d_conv": "4",
			"bias": bias}}}.mixer(t).(*GatedConv)
		w := read(m.Conv.weight.Tensor)
		checkFormula(t, m, 30, func(u matrix) matrix {
			p, y := u.each(affine(m.In)), make(matrix, len(u))
			for t := range u {
				y[t] = make([]float64, dModel)
				for c := range y[t] {
					if m.Conv.bias != nil {
						y[t][c] = float64(read(m.Conv.bias.Tensor)[c])
					}
					for j := range 4 {
						if from := t - 3 + j; from >= 0 {
							y[t][c] += float64(w[c*4+j]) * p[from][c] * p[from][2*dModel+c]
						}
					}
					y[t][c] *= p[t][dModel+c]
				}
			}
			return y.each(affine(m.Out))
		})
	}
}
