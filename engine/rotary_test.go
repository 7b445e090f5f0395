package engine

import (
	"math"
	"testing"
)

// TestScaledFrequencies compares the frequencies of published settings with the way the transformers library computes
// them: by wavelengths for llama3, by a blend of two lists for yarn.
func TestScaledFrequencies(t *testing.T) {
	unscaled := func(r Rotary) []float64 {
		f := make([]float64, r.Dim/2)
		for i := range f {
			f[i] = 1 / math.Pow(r.Base, float64(2*i)/float64(r.Dim))
		}
		return f
	}
	linear := func(r Rotary) []float64 {
		f := unscaled(r)
		for i := range f {
			f[i] /= r.Scaling.Factor
		}
		return f
	}
	llama3 := func(r Rotary) []float64 {
		f, s := unscaled(r), r.Scaling
		for i, x := range f {
			wave := 2 * math.Pi / x
			if wave > s.Original/s.Low {
				f[i] = x / s.Factor
			} else if wave >= s.Original/s.High {
				smooth := (s.Original/wave - s.Low) / (s.High - s.Low)
				f[i] = (1-smooth)*x/s.Factor + smooth*x
			}
		}
		return f
	}
	yarn := func(r Rotary) []float64 {
		f, s := unscaled(r), r.Scaling
		bound := func(turns float64) float64 {
			return float64(r.Dim) * math.Log(s.Original/turns/2/math.Pi) / 2 / math.Log(r.Base)
		}
		low, high := bound(s.High), bound(s.Low)
		if !s.Exact {
			low, high = math.Floor(low), math.Ceil(high)
		}
		for i, extrapolated := range f {
			ramp := (float64(i) - low) / (high - low)
			if float64(i) <= low {
				ramp = 0
			} else if float64(i) >= high {
				ramp = 1
			}
			interpolated := extrapolated / s.Factor
			f[i] = interpolated*ramp + extrapolated*(1-ramp)
		}
		return f
	}
	for name, c := range map[string]struct {
		r        Rotary
		want     func(Rotary) []float64
		kept, by int // number of frequencies at the front that are unchanged, and at the end that are divided
	}{
		"none":   {Rotary{Dim: 64, Base: 1e4}, unscaled, 32, 0},
		"linear": {Rotary{Dim: 128, Base: 1e4, Scaling: RotaryScaling{Kind: "linear", Factor: 8}}, linear, 0, 64},
		"Llama 3.1": {Rotary{Dim: 128, Base: 5e5, Scaling: RotaryScaling{Kind: "llama3", Factor: 8, Low: 1, High: 4,
			Original: 8192}}, llama3, 29, 29},
		"Llama 3.2": {Rotary{Dim: 64, Base: 5e5, Scaling: RotaryScaling{Kind: "llama3", Factor: 32, Low: 1, High: 4,
			Original: 8192}}, llama3, 15, 14},
		"Qwen3": {Rotary{Dim: 128, Base: 1e6, Scaling: RotaryScaling{Kind: "yarn", Factor: 4, Low: 1, High: 32,
			Original: 32768}}, yarn, 24, 24},
		"not rounded": {Rotary{Dim: 64, Base: 1.5e5, Scaling: RotaryScaling{Kind: "yarn", Factor: 32, Low: 1, High: 32,
			Original: 4096, Exact: true}}, yarn, 9, 14},
	} {
		got, want, plain := c.r.InvFreq(), c.want(c.r), unscaled(c.r)
		for i := range want {
			if math.Abs(float64(got[i])-want[i]) > 1e-7*want[i] {
				t.Errorf("%s: frequency %d is %g, want %g", name, i, got[i], want[i])
			}
		}
		kept, by := 0, 0
		divisor := func(i int) float64 { return plain[i] / float64(got[i]) }
		for kept < len(got) && got[kept] == float32(plain[kept]) {
			kept++
		}
		for by < len(got)-kept && math.Abs(divisor(len(got)-1-by)/c.r.Scaling.Factor-1) < 1e-6 {
			by++
		}
		if kept != c.kept || by != c.by {
			t.Errorf("%s: found %d frequencies kept and %d divided, want %d and %d", name, kept, by, c.kept, c.by)
		}
	}
	divided := Rotary{Dim: 6, Base: 100, Scaling: RotaryScaling{Kind: "divided", Divisors: "1:2.5:8"}}
	for i, by := range []float64{1, 2.5, 8} {
		if got, want := divided.InvFreq()[i], float32(math.Pow(100, -float64(i)/3)/by); got != want {
			t.Errorf("divided: frequency %d is %g, want %g", i, got, want)
		}
	}
}
