package mixer

import (
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestHeadsFormula compares attention with its formula for keys that serve several heads, heads that are not equal
// parts of d_model, norms of queries and keys, another scale, rotary positions with another base, and a window.
func TestHeadsFormula(t *testing.T) {
	const heads, keyHeads, hd, rotary, base, scale, window = 4, 2, 6, 4, 500.0, 0.3, 5
	options := Options{"kv_heads": "2", "head_dim": "6", "scale": "0.3", "rotary_base": "500", "qk_norm": "true",
		"norm_eps": "0.25"}
	for name, build := range map[string]func(Config) (Mixer, error){"attention": AttentionInfo.New,
		"window-attention": WindowAttentionInfo.New} {
		o, width := Options{}, math.MaxInt
		for key, value := range options {
			o[key] = value
		}
		if name == "window-attention" {
			o["window"], width = "5", window
		}
		m := variant{build: build, cfg: Config{NumHeads: heads, RotaryDim: rotary, Options: o}}.mixer(t).(*Attention)
		for i, p := range []*nn.Param{m.QNorm.Weight, m.KNorm.Weight} {
			p.CopyFrom([]float32{0.5 + float32(i), 1.5, -1, 0.75, 2, 1})
		}
		turned := func(x []float64, position int) []float64 {
			y, half := slices.Clone(x), rotary/2
			for i := range half {
				sin, cos := math.Sincos(float64(position) * math.Pow(base, -float64(i)/float64(half)))
				y[i], y[half+i] = x[i]*cos-x[half+i]*sin, x[i]*sin+x[half+i]*cos
			}
			return y
		}
		checkFormula(t, m, 30, func(u matrix) matrix {
			qkv := u.each(affine(m.Wqkv))
			out := make(matrix, len(u))
			for i := range u {
				for h := range heads {
					q := turned(rmsNormOf(m.QNorm)(qkv[i][h*hd:][:hd]), i)
					sum, y := 0.0, make([]float64, hd)
					for j := max(0, i-width+1); j <= i; j++ {
						at := heads*hd + h/(heads/keyHeads)*hd
						k, v := turned(rmsNormOf(m.KNorm)(qkv[j][at:][:hd]), j), qkv[j][at+keyHeads*hd:][:hd]
						w := math.Exp(scale * dotOf(q, k))
						sum += w
						for c := range y {
							y[c] += w * v[c]
						}
					}
					for c := range y {
						y[c] /= sum
					}
					out[i] = append(out[i], y...)
				}
			}
			return out.each(affine(m.Out))
		})
	}
}

// TestIntegerStates checks that keys and values stored as integers with a factor for each row are saved and restored as
// such, including those of a part, and that the state continues with the same bits. A mismatch gives an error with the
// value found, and a state of floats accepts no integers.
func TestIntegerStates(t *testing.T) {
	const d, heads, l = 32, 2, 20
	m, err := AttentionInfo.New(Config{DModel: d, NLayer: 1, NumHeads: heads, RotaryDim: 8})
	if err != nil {
		t.Fatal(err)
	}
	nn.InitAll(m, "", 1)
	float := m.NewState()
	m.Params("", func(_ string, q *nn.Param) {
		if q.Role == nn.Weight {
			engine.PackTensors(cpu.Backend{}, engine.Int8, engine.PackRounded, q.Tensor)
		}
	})
	both := Parallel([]string{"a", "b"}, []Mixer{m, m})
	wideSequence := func(seed uint64) *tensor.Tensor {
		return tensor.FromSlice(sequences(seed, d/dModel, l).Data(), l, d)
	}
	run := func(s State, at int, seed uint64) []float32 {
		r := &Rows{Rows: &engine.Rows{}, States: []State{s}}
		r.Add(l, at)
		return read(both.Forward(newTape(), wideSequence(seed), r))
	}
	s, c := both.NewState(), both.NewState()
	if parts := StateParts(s); len(parts) != 0 {
		t.Errorf("before the first position there are the parts %v", parts)
	}
	run(s, 0, 1)
	var shape []int // of the last of the parts
	var q []int8
	var factors []float32
	for _, p := range StateParts(s) {
		if p.Integers == nil {
			t.Fatalf("%s is not held as integers", p.Name)
		}
		q, factors = nil, nil
		for rows, f := range p.Integers.Rows() {
			q, factors = append(q, rows...), append(factors, f...)
		}
		if done, err := RestoreIntegers(c, p.Name, p.Shape(), q, factors); !done || err != nil {
			t.Fatalf("%s: %v, %v", p.Name, done, err)
		}
		shape = p.Shape()
	}
	if !slices.Equal(run(c, l, 2), run(s, l, 2)) {
		t.Error("restored from integers it goes on with other bits")
	}
	for what, restore := range map[string]func() (bool, error){
		"factors": func() (bool, error) { return RestoreIntegers(both.NewState(), "b.v", shape, q, factors[1:]) },
		"more factors": func() (bool, error) {
			return RestoreIntegers(both.NewState(), "b.v", shape, q, append(factors,
				1))
		},
		"values": func() (bool, error) { return RestoreIntegers(both.NewState(), "b.v", shape, q[1:], factors) },
		"a name": func() (bool, error) { return RestoreIntegers(both.NewState(), "b.x", shape, q, factors) },
		"positions": func() (bool, error) {
			half := []int{heads, l / 2, d / heads}
			return RestoreIntegers(c, "b.v", half, q[:len(q)/2], factors[:len(factors)/2])
		},
	} {
		if done, err := restore(); !done || err == nil {
			t.Errorf("another number of %s: %v, %v", what, done, err)
		}
	}
	for what, state := range map[string]State{"floats": float, "a recurrence": newFixedState([]string{"k"}, []int{2})} {
		if done, err := RestoreIntegers(state, "k", shape, q, factors); done || err != nil {
			t.Errorf("a state of %s: %v, %v", what, done, err)
		}
	}
	if done, err := RestoreIntegers(both.NewState(), "c.k", shape, q, factors); done || err != nil {
		t.Errorf("a part that there is not: %v, %v", done, err)
	}
}

// TestPositionsOfOneHead checks that a wrong shape is refused in each axis, and so is a state with more positions than
// a window can see.
func TestPositionsOfOneHead(t *testing.T) {
	const window, hd = 9, dModel / 2
	m := variant{build: WindowAttentionInfo.New, cfg: Config{NumHeads: 2, Options: Options{"window": "9"}}}.mixer(t)
	for _, c := range []struct {
		shape []int
		want  bool
	}{
		{[]int{2, 1, hd}, true}, {[]int{2, window - 1, hd}, true}, {[]int{2, window, hd}, false},
		{[]int{2, 0, hd}, false}, {[]int{1, 3, hd}, false}, {[]int{2, 3, hd + 1}, false}, {[]int{2, 3}, false},
		{[]int{1, 2, 3, hd}, true},
	} {
		n := 1
		for _, k := range c.shape {
			n *= k
		}
		if err := m.NewState().Restore("k", c.shape, make([]float32, n)); (err == nil) != c.want {
			t.Errorf("keys of shape %v: found the error %v", c.shape, err)
		}
	}
	if err := m.NewState().Restore("start", []int{1}, []float32{7}); err != nil {
		t.Errorf("the start of earlier versions: %v", err)
	}
	for _, bad := range []struct {
		shape []int
		data  []float32
	}{{[]int{1}, []float32{-1}}, {[]int{1}, []float32{1 << 24}}, {[]int{2}, []float32{1, 2}}, {[]int{1, 1},
		[]float32{1}},
		{[]int{1}, nil}, {nil, []float32{1}}} {
		for _, s := range []State{m.NewState(), newRowState([]string{"z"}, 3)} {
			if err := s.Restore("start", bad.shape, bad.data); err == nil {
				t.Errorf("a start of shape %v and values %v: no error", bad.shape, bad.data)
			}
		}
	}
	s := m.NewState()
	if err := s.Restore("k", []int{2, 3, hd}, make([]float32, 6*hd)); err != nil {
		t.Fatal(err)
	}
	if err := s.Restore("v", []int{2, 4, hd}, make([]float32, 8*hd)); err == nil {
		t.Error("3 keys and 4 values: no error")
	}
}

// TestBucketAttentionTraits checks that a bidirectional layer needs complete buckets and has no state, that a causal
// one grows by a query, a key and a value, and that the simple sort net limits the length.
func TestBucketAttentionTraits(t *testing.T) {
	for options, want := range map[string]Traits{
		"":                     {Growth: 4 * 3 * dModel},
		"bidirectional":        {LooksAhead: true, Multiple: 8},
		"simple":               {Growth: 4 * 3 * dModel, MaxLength: 64},
		"simple bidirectional": {LooksAhead: true, Multiple: 8, MaxLength: 64},
	} {
		o := Options{"bucket": "8", "l_max": "64"}
		if len(options) > 0 && options[0] == 's' {
			o["sort_net"] = "simple"
		}
		if len(options) > 6 {
			o["bidirectional"] = "true"
		}
		m := variant{build: BucketAttentionInfo.New, cfg: Config{NumHeads: 2, Options: o}}.mixer(t)
		if got := m.Traits(); got != want {
			t.Errorf("%q: found the traits %+v, want %+v", options, got, want)
		}
	}
}
