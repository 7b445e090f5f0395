package mixer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// gradTol is for gradients computed in two ways: sums over all positions whose terms partly cancel.
const gradTol = 2e-5

// gradients runs u (2, l, d) in chunks on one tape and propagates dy back, without its positions before from. If detach
// is set, gradients do not flow from chunk to chunk. It returns the gradient of the input and those of the parameters
// of each role, concatenated: the gradient of a small parameter may almost cancel, so it is judged by the size of those
// of its role.
func gradients(m Mixer, u *tensor.Tensor, lengths []int, detach bool,
	from int) (du []float32, params map[nn.Role][]float32) {
	const b = 2
	l := u.Rows() / b
	rng := rand.New(rand.NewPCG(6, 7))
	dy := make([]float32, u.Len())
	for i := range dy {
		if g := float32(rng.NormFloat64()); i%(l*dModel)/dModel >= from {
			dy[i] = g
		}
	}
	tape, s, lo := recording(), begin(m, b), 0
	chunks := make([]*tensor.Tensor, len(lengths))
	for i, n := range lengths {
		chunks[i] = leaf(cut(u.Data(), b, lo, lo+n), b*n, dModel)
		var y *tensor.Tensor
		if len(lengths) == 1 {
			y = m.Forward(tape, chunks[i], equalRows(b, n)) // all at once, as in training on separate texts
		} else {
			y = s.forward(tape, chunks[i])
		}
		tape.Seed(y, tensor.FromSlice(cut(dy, b, lo, lo+n), y.Shape()...))
		if detach {
			s.detach()
		}
		lo += n
	}
	tape.BackwardSeeded()
	du, lo = make([]float32, u.Len()), 0
	for i, n := range lengths {
		paste(du, gradient(tape, chunks[i]), b, lo, lo+n)
		lo += n
	}
	params = map[nn.Role][]float32{}
	m.Params("", func(_ string, p *nn.Param) {
		role := p.Role
		if role == nn.Bias { // in an mLSTM these are only gates, and all input gates together change next to nothing
			role = nn.Weight
		}
		params[role] = append(params[role], gradient(tape, p.Tensor)...)
	})
	return du, params
}

// TestGradientsAcrossChunks checks that the gradients of a sequence in chunks on one tape equal those of the whole
// sequence.
func TestGradientsAcrossChunks(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			m := v.mixer(t)
			rapid.Check(t, func(rt *rapid.T) {
				lengths, l := drawLengths(rt)
				u := sequences(rapid.Uint64().Draw(rt, "seed"), 2, l)
				wantU, want := gradients(m, u, []int{l}, false, 0)
				du, got := gradients(m, u, lengths, false, 0)
				near(rt, "gradient of u", du, wantU, gradTol)
				for role, g := range want {
					near(rt, fmt.Sprintf("gradients of role %d", role), got[role], g, gradTol)
				}
			})
		})
	}
}

// TestDetachStopsGradients checks that the gradient of the last chunk's loss reaches earlier inputs, but not after
// Detach.
func TestDetachStopsGradients(t *testing.T) {
	lengths := []int{26, 5, 9}
	const l, last = 40, 31
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			m := v.mixer(t)
			u := sequences(8, 2, l)
			exact, _ := gradients(m, u, lengths, false, last)
			cutOff, _ := gradients(m, u, lengths, true, last)
			largest := func(x []float32) (most float32) {
				for _, v := range cut(x, 2, 0, last) {
					most = max(most, v, -v)
				}
				return most
			}
			if g := largest(exact); g == 0 {
				t.Error("nothing flows back to earlier chunks")
			}
			if g := largest(cutOff); g != 0 {
				t.Errorf("a gradient of %g flows through Detach", g)
			}
			near(t, "gradient of the last chunk", cut(cutOff, 2, last, l), cut(exact, 2, last, l), gradTol)
		})
	}
}
