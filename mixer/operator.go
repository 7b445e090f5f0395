package mixer

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/tensor"
)

// Operator is the action of a mixer on one sequence of l positions, as a linear map of its values v for given queries
// and keys. It adds
//
//	y[t] = b + Σ_h Σ_s W_h[t,s] · O_h v_h[s]
//
// to the stream, with a matrix W_h (l, l) for each head h, the columns O_h of its last projection and the bias b of
// that projection.
//
// For attention, including MLA, W_h is the attention pattern. For H3, it follows from y = q ⊙ SSM_diag(SSM_shift(k) ⊗
// v) by inserting the kernel K of the diagonal system and its skip D, k̄ = SSM_shift(k), and the sum over the state's
// axis i of y_j[t] = Σ_i q_i[t] z_ij[t]:
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
	column  func(h, j int) int // column of out that channel j of head h is multiplied by
}

// Weights fills w (l, l) with the matrix of a head.
func (o *Operator) Weights(h int, w []float64) { o.weights(h, w) }

// Value returns what a head reads at a position, (head_dim). It must not be changed.
func (o *Operator) Value(h, s int) []float32 {
	d := o.Heads * o.HeadDim
	return o.values[s*d+h*o.HeadDim:][:o.HeadDim]
}

// Written fills g (n, head_dim) with rows · O_h: the components of a head's values along n directions of the stream,
// rows (n, d_model).
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

// OperatorOf returns the operator of a mixer for the sequence u (l, d_model), and whether it has one: attentions,
// causal or not, MLA and H3 do. t must not record.
func OperatorOf(t *autograd.Tape, m Mixer, u *tensor.Tensor) (*Operator, bool) {
	if m, ok := m.(interface {
		operator(t *autograd.Tape, u *tensor.Tensor) *Operator
	}); ok {
		op := m.operator(t, u)
		return op, op != nil
	}
	return nil, false
}
