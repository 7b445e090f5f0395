package mixer

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/nn"
)

// rootMean divides each group of a row by its root mean square and multiplies it by weights, nil for ones.
func rootMean(x []float64, groups int, eps float64, w []float32) []float64 {
	y := make([]float64, len(x))
	for at, n := 0, len(x)/groups; at < len(x); at += n {
		size := math.Sqrt(dotOf(x[at:at+n], x[at:at+n])/float64(n) + eps)
		for i := at; i < at+n; i++ {
			y[i] = x[i] / size
			if w != nil {
				y[i] *= float64(w[i])
			}
		}
	}
	return y
}

// spread sets parameters that start at one number to different ones.
func spread(all ...*nn.Param) {
	for k, p := range all {
		x := make([]float32, p.Len())
		for i := range x {
			x[i] = 0.5 + 0.25*float32((i+k)%5)
		}
		p.CopyFrom(x)
	}
}

// TestMamba2Options compares with the equations in float64: with groups, with the norm after the gate, before it, over
// each group or over all channels, with limited steps, and with factors of the first projection's outputs.
func TestMamba2Options(t *testing.T) {
	for _, o := range []Options{
		{},
		{"ngroups": "2"},
		{"ngroups": "2", "norm_before_gate": "true", "norm_eps": "0.1"},
		{"ngroups": "2", "grouped_norm": "false"},
		{"rmsnorm": "false", "norm_before_gate": "true"},
		{"dt_low": "0.05"}, {"dt_high": "0.05"}, {"dt_low": "0.04", "dt_high": "0.06"},
		{"z_scale": "0.5"}, {"x_scale": "2"}, {"b_scale": "0.3"}, {"c_scale": "3"}, {"dt_scale": "0.7"},
		{"ngroups": "4", "z_scale": "0.5", "x_scale": "2", "b_scale": "0.3", "c_scale": "3", "dt_scale": "0.7",
			"bias": "true", "expand": "1", "d_conv": "2"},
	} {
		cfg := Config{Options: Options{"d_state": "3", "headdim": "2"}}
		for key, value := range o {
			cfg.Options[key] = value
		}
		m := variant{name: "mamba2", build: Mamba2Info.New, cfg: cfg}.mixer(t).(*Mamba2)
		if m.Norm != nil {
			spread(m.Norm.Weight)
		}
		scale := func(name string) float64 {
			s := 1.0
			if v, ok := o[name]; ok {
				fmt.Sscan(v, &s)
			}
			return s
		}
		low, high := scale("dt_low"), scale("dt_high")
		if o["dt_low"] == "" {
			low = 0
		}
		if o["dt_high"] == "" {
			high = math.Inf(1)
		}
		n, d, hd, groups := m.opt.DState, m.d, m.opt.HeadDim, m.opt.Groups
		heads, bc := d/hd, groups*n
		checkFormula(t, m, 30, func(u matrix) matrix {
			in := u.each(affine(m.In)).each(func(row []float64) []float64 {
				row = slices.Clone(row)
				for i := range row {
					for k, end := range []int{d, 2 * d, 2*d + bc, 2*d + 2*bc, 2*d + 2*bc + heads} {
						if i < end {
							row[i] *= scale([]string{"z_scale", "x_scale", "b_scale", "c_scale", "dt_scale"}[k])
							break
						}
					}
				}
				return row
			})
			xbc := filtered(&m.Conv, in.columns(d, 2*d+2*bc))
			bias, a, skip := read(m.DtBias.Tensor), read(m.ALog.Tensor), read(m.D.Tensor)
			h, out := make([]float64, d*n), make(matrix, len(u))
			for t := range u {
				out[t] = make([]float64, d)
				for i := range d {
					head, x := i/hd, xbc[t][i]
					group := head / (heads / groups)
					b, c := xbc[t][d+group*n:][:n], xbc[t][d+bc+group*n:][:n]
					step := softplusOf([]float64{in[t][2*d+2*bc+head] + float64(bias[head])})[0]
					step = min(max(step, low), high)
					y := float64(skip[head]) * x
					for k := range n {
						h[i*n+k] = math.Exp(-step*math.Exp(float64(a[head])))*h[i*n+k] + step*b[k]*x
						y += c[k] * h[i*n+k]
					}
					out[t][i] = y
				}
			}
			gate := in.columns(0, d).each(siluOf)
			norm := func() {
				if m.Norm == nil {
					return
				}
				each := groups
				if o["grouped_norm"] == "false" {
					each = 1
				}
				out = out.each(func(row []float64) []float64 {
					return rootMean(row, each, m.opt.NormEps, read(m.Norm.Weight.Tensor))
				})
			}
			if o["norm_before_gate"] == "true" {
				norm()
			}
			for t := range out {
				for i := range out[t] {
					out[t][i] *= gate[t][i]
				}
			}
			if o["norm_before_gate"] != "true" {
				norm()
			}
			return out.each(affine(m.Out))
		})
	}
}

// TestMambaNorms compares with the equations in float64, with Δ', B and C each divided by its root mean square, or also
// multiplied by weights.
func TestMambaNorms(t *testing.T) {
	for _, kind := range []string{"none", "rms", "learned"} {
		m := variant{build: MambaInfo.New, cfg: Config{Options: Options{"d_state": "3", "bcdt_norm": kind,
			"norm_eps": "0.01", "dt_rank": "2"}}}.mixer(t).(*Mamba)
		var of [3][]float32
		if kind == "learned" {
			spread(m.DtNorm.Weight, m.BNorm.Weight, m.CNorm.Weight)
			for i, norm := range []*nn.RMSNorm{m.DtNorm, m.BNorm, m.CNorm} {
				of[i] = read(norm.Weight.Tensor)
			}
		}
		n, d, rank := 3, m.d, 2
		checkFormula(t, m, 30, func(u matrix) matrix {
			xz := u.each(affine(m.In))
			x := filtered(&m.Conv, xz.columns(0, d))
			p := x.each(affine(m.X))
			parts := [3]matrix{p.columns(0, rank), p.columns(rank, rank+n), p.columns(rank+n, rank+2*n)}
			if kind != "none" {
				for i := range parts {
					parts[i] = parts[i].each(func(row []float64) []float64 { return rootMean(row, 1, 0.01, of[i]) })
				}
			}
			dt := parts[0].each(affine(m.Dt)).each(softplusOf)
			a, skip, h, out := read(m.ALog.Tensor), read(m.D.Tensor), make([]float64, d*n), make(matrix, len(u))
			for t := range u {
				out[t] = make([]float64, d)
				gate := siluOf(xz[t][d:])
				for i := range d {
					y := float64(skip[i]) * x[t][i]
					for k := range n {
						h[i*n+k] = math.Exp(-dt[t][i]*math.Exp(float64(a[i*n+k])))*h[i*n+k] +
							dt[t][i]*parts[1][t][k]*x[t][i]
						y += parts[2][t][k] * h[i*n+k]
					}
					out[t][i] = y * gate[i]
				}
			}
			return out.each(affine(m.Out))
		})
	}
}
