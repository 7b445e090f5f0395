package anatomy

import (
	"cmp"
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

// shownKernels is the number of channels of a layer that are drawn as curves.
const shownKernels = 4

// kernelFigures returns figures of the kernels in time and frequency, and of how the states of selective systems fade.
func kernelFigures(both []*Report) (all []*figure.Figure) {
	now := both[0]
	for i, l := range now.Layers {
		for k, kernel := range l.Kernels {
			title := fmt.Sprintf("layer %d · %s · %s", i, l.Kind, kernel.Name)
			inTime, inFrequency := &figure.Lines{}, &figure.Lines{}
			picked := spreadChannels(&kernel)
			for n, a := range both {
				if i >= len(a.Layers) || k >= len(a.Layers[i].Kernels) {
					continue
				}
				x := &a.Layers[i].Kernels[k]
				for _, c := range picked {
					if c >= x.Channels {
						continue
					}
					name := fmt.Sprintf("channel %d", c)
					if n > 0 {
						name += " " + a.Name
					}
					taps := x.channel(c)
					inTime.Series = append(inTime.Series, figure.Series{Name: name, X: counting(len(taps)), Y: taps,
						Dashed: n > 0})
					f, y := spectrumOf(taps)
					inFrequency.Series = append(inFrequency.Series, figure.Series{Name: name, X: f, Y: y,
						Dashed: n > 0})
				}
			}
			all = append(all, &figure.Figure{Name: fmt.Sprintf("kernel-%d-%s", i, figure.Slug(kernel.Name)),
				Group: "kernels", Pick: title, Title: "Kernels",
				Caption: "The impulse responses K of some channels, the shortest first: " +
					"y[t] = Σ_j K[j] u[t-j] before skips and gates. " +
					"Their gain at each frequency is |Σ_j K[j] e^(-2πifj)|.",
				Source: explain.Papers(l.Kind),
				Frames: []figure.Frame{{Panels: []figure.Panel{
					{Title: "In time", X: figure.Axis{Label: "lag (tokens)"}, Y: figure.Axis{Label: "K"},
						Lines: inTime},
					{Title: "In frequency", X: figure.Axis{Label: "cycles per token"},
						Y: figure.Axis{Label: "gain", Log: true}, Lines: inFrequency},
					{Title: "All channels", X: figure.Axis{Label: "lag (tokens)"}, Y: figure.Axis{Label: "channel"},
						Map: kernel.heat(len(now.Layers))},
				}}}})
		}
		for k := range l.Systems {
			if s := &l.Systems[k]; s.Selects {
				all = append(all, fading(both, i, k, l.Kind, s))
			}
		}
	}
	return all
}

// channel returns the kernel of one channel.
func (k *Kernel) channel(c int) figure.Floats {
	out := make(figure.Floats, k.Taps)
	for j := range out {
		out[j] = float64(k.K[j*k.Channels+c])
	}
	return out
}

// spreadChannels returns some channels, from the one with the shortest kernel to the one with the longest, measured by
// the mean lag of their energy.
func spreadChannels(k *Kernel) []int {
	type lag struct {
		c    int
		mean float64
	}
	lags := make([]lag, k.Channels)
	for c := range lags {
		sum, all := 0.0, 0.0
		for j, v := range k.channel(c) {
			sum, all = sum+float64(j)*v*v, all+v*v
		}
		lags[c] = lag{c, sum / max(all, 1e-300)}
	}
	slices.SortStableFunc(lags, func(a, b lag) int { return cmp.Compare(a.mean, b.mean) })
	var out []int
	for _, l := range figure.Some(lags, shownKernels) {
		out = append(out, l.c)
	}
	return out
}

func counting(n int) figure.Floats {
	x := make(figure.Floats, n)
	for i := range x {
		x[i] = float64(i)
	}
	return x
}

// spectrumOf returns the gain of a kernel at frequencies from 0 to half a cycle per position.
func spectrumOf(k figure.Floats) (f, gain figure.Floats) {
	n := 64
	for n < 2*len(k) {
		n *= 2
	}
	x := make([]complex128, n)
	for i, v := range k {
		x[i] = complex(v, 0)
	}
	every := max(1, n/2/256)
	for i, z := range ssm.FFT(x)[:n/2+1] {
		if i%every == 0 {
			f, gain = append(f, float64(i)/float64(n)), append(gain, max(cmplx.Abs(z), 1e-9))
		}
	}
	return f, gain
}

// heat returns a map of the kernels, of at most 96 channels at 256 lags. The map is smaller if the model has many
// layers.
func (k *Kernel) heat(layers int) *figure.Map {
	rows, cols := min(96, k.Channels), min(256, k.Taps)
	if layers > 24 {
		rows, cols = min(32, rows), min(128, cols)
	}
	m := &figure.Map{Rows: rows, Cols: cols, Diverging: true}
	for r := range rows {
		for j := range cols {
			m.Values = append(m.Values, float64(k.K[j*k.Channels+r*k.Channels/rows]))
		}
	}
	return m
}

// fading returns a figure of how the state of a selective system fades with its mean decays.
func fading(both []*Report, i, k int, kind string, s *System) *figure.Figure {
	lines := &figure.Lines{}
	for n, a := range both {
		if i >= len(a.Layers) || k >= len(a.Layers[i].Systems) {
			continue
		}
		constants := a.Layers[i].Systems[k].TimeConstants()
		for _, q := range []float64{0.1, 0.5, 0.9} {
			tau := figure.Quantile(constants, q)
			one := figure.Series{Name: fmt.Sprintf("%.0f %% %s", q*100, a.Name), Dashed: n > 0}
			for t := range 257 {
				one.X, one.Y = append(one.X, float64(t)), append(one.Y, math.Exp(-float64(t)/tau))
			}
			lines.Series = append(lines.Series, one)
		}
	}
	return &figure.Figure{Name: fmt.Sprintf("fading-%d-%s", i, figure.Slug(s.Part)), Group: "kernels",
		Pick: fmt.Sprintf("layer %d · %s · %s", i, kind, s.Part), Title: "How the state fades",
		Caption: "The decays of this system depend on the token, so it has no fixed kernel. The curves are ā^t, " +
			"the rest of an impulse in the state, at the mean of ln a over the short run. " +
			"They are for the channels at 10, 50 and 90 % of all time constants.",
		Source: explain.Papers(kind),
		Frames: []figure.Frame{{Panels: []figure.Panel{{X: figure.Axis{Label: "lag (tokens)"},
			Y: figure.Axis{Label: "left", Max: 1}, Lines: lines}}}}}
}

// shownPoles is the maximum number of poles of a system that are drawn.
const shownPoles = 1200

// poleFigures returns figures of the poles of each layer in both planes.
func poleFigures(both []*Report) (all []*figure.Figure) {
	for i, l := range both[0].Layers {
		for k := range l.Systems {
			s := &l.Systems[k]
			continuous, discrete := &figure.Lines{}, &figure.Lines{Circle: true}
			for _, a := range both {
				if i >= len(a.Layers) || k >= len(a.Layers[i].Systems) {
					continue
				}
				x := &a.Layers[i].Systems[k]
				if len(x.Poles) > 0 {
					continuous.Series = append(continuous.Series, cloud(a.Name, x.Poles))
				}
				if len(x.Discrete) > 0 {
					discrete.Series = append(discrete.Series, cloud(a.Name, x.Discrete))
				}
			}
			var panels []figure.Panel
			if len(continuous.Series) > 0 {
				panels = append(panels, figure.Panel{Title: "Eigenvalues of A", X: figure.Axis{Label: "real part"},
					Y: figure.Axis{Label: "imaginary part"}, Lines: continuous})
			}
			if len(discrete.Series) > 0 {
				panels = append(panels, figure.Panel{Title: "From token to token, in the unit circle", Square: true,
					X: figure.Axis{Label: "real part"}, Y: figure.Axis{Label: "imaginary part"}, Lines: discrete})
			}
			if len(panels) == 0 {
				continue
			}
			all = append(all, &figure.Figure{Name: fmt.Sprintf("poles-%d-%s", i, figure.Slug(s.Part)), Group: "poles",
				Pick: fmt.Sprintf("layer %d · %s · %s", i, l.Kind, s.Part), Title: "Poles",
				Caption: fmt.Sprintf("Left: the spectrum of A. Right: "+
					"the numbers that multiply the state at each token, as the model computes them. "+
					"%d of %d are inside the unit circle, where a mode fades. "+
					"A mode at angle θ turns once in 2π/θ tokens. The nearer it is to the circle, "+
					"the longer it lasts. The part is %s.", stable(s.Discrete), len(s.Discrete), s.Rule),
				Source: explain.Papers(l.Kind), Frames: []figure.Frame{{Panels: panels}}})
		}
	}
	return all
}

// cloud returns points in the complex plane.
func cloud(name string, z []complex128) figure.Series {
	s := figure.Series{Name: name, Points: true}
	for _, x := range figure.Some(z, shownPoles) {
		s.X, s.Y = append(s.X, real(x)), append(s.Y, imag(x))
	}
	return s
}
