package action

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/tensor"
)

// Operator is the action of a mixer on one sequence of l positions, as a linear map of its values v for given queries
// and keys: it adds
//
//	y[t] = b + Σ_h Σ_s W_h[t,s] · O_h v_h[s]
//
// to the stream, with a matrix W_h (l, l) for each head h, the columns O_h of its last projection and the bias b of
// that projection.
//
// Of attention, W_h is the attention pattern. Of H3 it follows from y = q ⊙ SSM_diag(SSM_shift(k) ⊗ v) by putting in
// the kernel K of the diagonal system and its skip D, k̄ = SSM_shift(k), and the sum over the state's axis i of y_j[t]
// = Σ_i q_i[t] z_ij[t]:
//
//	z_ij[t] = Σ_{s≤t} (K[t-s] + D δ_ts) k̄_i[s] v_j[s]
//	W_h[t,s] = (K[t-s] + D δ_ts) · Σ_i q_i[t] k̄_i[s]     for s ≤ t, 0 elsewhere
//
// which is linear attention with a kernel that depends on the distance, and may be negative.
type Operator struct {
	Length, Heads, HeadDim int

	weights func(h int, w []float64)
	values  []float32          // (l, heads·head_dim), channel h·head_dim + j
	out     []float32          // (d_model, heads·head_dim)
	column  func(h, j int) int // of out, that channel j of head h is multiplied by
}

// Weights fills w (l, l) with the matrix of a head.
func (o *Operator) Weights(h int, w []float64) { o.weights(h, w) }

// Value is what a head reads at a position, (head_dim). It must not be changed.
func (o *Operator) Value(h, s int) []float32 {
	d := o.Heads * o.HeadDim
	return o.values[s*d+h*o.HeadDim:][:o.HeadDim]
}

// Written fills g (n, head_dim) with rows · O_h: what each of n directions of the stream, rows (n, d_model), gets of a
// value of a head.
func (o *Operator) Written(h int, rows, g []float64) {
	d := o.Heads * o.HeadDim
	width := len(o.out) / d
	for r := range len(rows) / width {
		for j := range o.HeadDim {
			column, sum := o.column(h, j), 0.0
			for i, x := range rows[r*width:][:width] {
				sum += x * float64(o.out[i*d+column])
			}
			g[r*o.HeadDim+j] = sum
		}
	}
}

// OperatorOf returns what a mixer does to the sequence u (l, d_model), and whether it is a mixer with heads: an
// attention, causal or not, or H3. t must not record.
func OperatorOf(t *autograd.Tape, m mixer.Mixer, u *tensor.Tensor) (*Operator, bool) {
	switch m := m.(type) {
	case *mixer.Attention:
		return attentionOperator(t, m, u), true
	case *mixer.H3:
		return h3Operator(t, m, u), true
	}
	return nil, false
}

// attentionOperator derives the patterns of attention from its outputs for values that are unit vectors, so that the
// logic of rotary positions, windows and blocks stays in one place. A head of head_dim channels gives that many columns
// at a time.
func attentionOperator(t *autograd.Tape, m *mixer.Attention, u *tensor.Tensor) *Operator {
	opt := m.Options()
	q, k, values, hd := m.Projected(t, u)
	l, d, keyHeads := u.Dim(0), opt.Heads*hd, opt.KeyHeads()
	patterns := make([]float32, opt.Heads*l*l)
	y := make([]float32, l*d)
	for from := 0; from < l; from += hd {
		n := min(hd, l-from)
		unit := make([]float32, l*keyHeads*hd)
		for s := range n {
			for h := range keyHeads {
				unit[((from+s)*keyHeads+h)*hd+s] = 1
			}
		}
		v := t.New(l, keyHeads*hd)
		v.CopyFrom(unit)
		t.Attention(t.Join(q, k, v), engine.NewRows(l), nil, opt).CopyTo(y)
		for h := range opt.Heads {
			for i := range l {
				copy(patterns[(h*l+i)*l+from:][:n], y[i*d+h*hd:])
			}
		}
	}
	return &Operator{
		Length: l, Heads: opt.Heads, HeadDim: hd,
		values: ofQueries(values.Floats(), &opt, hd), out: m.Out.Weight.Tensor.Floats(),
		column: func(h, j int) int { return h*hd + j },
		weights: func(h int, w []float64) {
			for i, x := range patterns[h*l*l:][:l*l] {
				w[i] = float64(x)
			}
		},
	}
}

// ofQueries gives each head of queries the values (l, key heads·hd) of the head that it sees.
func ofQueries(values []float32, o *engine.AttentionOptions, hd int) []float32 {
	if o.KeyHeads() == o.Heads {
		return values
	}
	var out []float32
	for width := o.KeyHeads() * hd; len(values) > 0; values = values[width:] {
		for h := range o.Heads {
			out = append(out, values[o.KeyHead(h)*hd:][:hd]...)
		}
	}
	return out
}

func h3Operator(t *autograd.Tape, m *mixer.H3, u *tensor.Tensor) *Operator {
	l, d, heads := u.Dim(0), u.Dim(1), m.D.Len()
	hd := d / heads
	shift := m.Shift
	shifted := t.ShiftSSM(m.K.Forward(t, u), shift.B.Tensor, shift.C.Tensor, shift.D.Tensor, engine.NewRows(l), nil)
	q, k, v := m.Q.Forward(t, u).Floats(), shifted.Floats(), m.V.Forward(t, u).Floats()
	kernel, skip := t.KernelRows(t.DiagKernel(m.Diag.System(t), l), heads).Floats(), m.D.Tensor.Floats()
	o := &Operator{Length: l, Heads: heads, HeadDim: hd, values: v, out: m.Out.Weight.Tensor.Floats()}
	o.column = func(h, j int) int { return h*hd + j }
	if m.HeadOrder() == engine.DimMajor {
		o.column = func(h, j int) int { return j*heads + h }
	}
	o.weights = func(h int, w []float64) {
		clear(w)
		for i := range l {
			for s := range i + 1 {
				dot := 0.0
				for c := range hd {
					dot += float64(q[i*d+h*hd+c]) * float64(k[s*d+h*hd+c])
				}
				through := float64(kernel[(i-s)*heads+h])
				if s == i {
					through += float64(skip[h])
				}
				w[i*l+s] = through * dot
			}
		}
	}
	return o
}
