package mixer

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestKernelsAreImpulseResponses checks that the response of a layer's systems to an impulse, by the operations that
// the layer runs, is its kernel.
func TestKernelsAreImpulseResponses(t *testing.T) {
	const l, d = 24, 8
	rows, tape := engine.NewRows(l), newTape()
	impulse := func(d int) (u, none *tensor.Tensor) {
		u, none = tensor.New(l, d), tensor.New(d)
		x := make([]float32, l*d)
		for c := range d {
			x[c] = 1
		}
		u.CopyFrom(x)
		return u, none
	}
	u, none := impulse(d)
	narrow, nothing := impulse(d / 4)
	for _, c := range []struct {
		name   string
		build  func(Config) (Mixer, error)
		answer func(m Mixer) *tensor.Tensor
	}{
		{"shift", H3Info.New, func(m Mixer) *tensor.Tensor {
			s := m.(*H3).Shift
			return tape.ShiftSSM(u, s.B.Tensor, s.C.Tensor, none, rows, nil)
		}},
		{"ssm", S4Info.New, func(m Mixer) *tensor.Tensor { return m.(*S4).systems[0].run(tape, u, none, rows, nil) }},
		{"ssm", S4DInfo.New, func(m Mixer) *tensor.Tensor { return m.(*S4D).systems[0].run(tape, u, none, rows, nil) }},
		{"ssm", DSSInfo.New, func(m Mixer) *tensor.Tensor { return m.(*DSS).systems[0].run(tape, u, none, rows, nil) }},
		{"diag", GSSInfo.New, func(m Mixer) *tensor.Tensor {
			return tape.DiagSSM(engine.Gates{V: narrow}, m.(*GSS).Diag.System(tape), nothing, rows, nil)
		}},
		{"conv", GatedConvInfo.New, func(m Mixer) *tensor.Tensor {
			return tape.CausalConv(u, m.(*GatedConv).Conv.weight.Tensor, nil, engine.None, rows, nil)
		}},
		{"long", HyenaInfo.New, func(m Mixer) *tensor.Tensor {
			k := m.(*Hyena).Filter.kernels(tape, l)
			return tape.LongConv(u, k[0], none, rows)
		}},
	} {
		m, err := c.build(Config{DModel: d, NLayer: 1, DState: 8, HeadDim: 1, DtMin: 0.01, DtMax: 0.1,
			Measure: "diag-lin", NumHeads: 2})
		if err != nil {
			t.Fatal(err)
		}
		nn.InitAll(m, "", 3)
		y := read(c.answer(m))
		found := false
		for _, k := range Responses(tape, Parallel([]string{"a"}, []Mixer{Scaled(m, 2, 3)}), l) {
			if k.Name != "a."+c.name {
				continue
			}
			found = true
			taps := read(k.Taps)
			for i, v := range y {
				want := float32(0)
				if i < len(taps) {
					want = taps[i]
				}
				if math.Abs(float64(v-want)) > 1e-5 {
					t.Fatalf("%T, number %d: the layer answers %g, the kernel has %g", m, i, v, want)
				}
			}
		}
		if !found {
			t.Errorf("%T: there is no kernel %s", m, c.name)
		}
	}
}
