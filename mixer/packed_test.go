package mixer

import (
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestPackedDocuments checks that concatenated documents of any lengths each give the same bits as alone, and that the
// gradients are those of each document for its inputs, and their sum for the parameters.
func TestPackedDocuments(t *testing.T) {
	lengths := []int{30, 1, 7, 24, 3}
	total := 0
	for _, n := range lengths {
		total += n
	}
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			m := v.mixer(t)
			u, dy := sequences(3, 1, total), read(sequences(4, 1, total))
			run := func(lo, hi int, lengths ...int) (y, du []float32, params map[nn.Role][]float32) {
				tape, x := recording(), leaf(u.Data()[lo*dModel:hi*dModel], hi-lo, dModel)
				out := m.Forward(tape, x, &Rows{Rows: engine.NewRows(lengths...)})
				y = read(out)
				tape.BackwardFrom(out, tensor.FromSlice(dy[lo*dModel:hi*dModel], out.Shape()...))
				params = map[nn.Role][]float32{}
				m.Params("", func(_ string, p *nn.Param) {
					g := gradient(tape, p.Tensor)
					if g == nil { // a sequence of one position needs no such parameter
						g = make([]float32, p.Len())
					}
					params[p.Role] = append(params[p.Role], g...)
				})
				return y, gradient(tape, x), params
			}
			y, du, params := run(0, total, lengths...)
			sums, lo := map[nn.Role][]float32{}, 0
			for i, n := range lengths {
				oneY, oneDu, one := run(lo, lo+n, n)
				if !slices.Equal(oneY, y[lo*dModel:][:n*dModel]) {
					t.Errorf("y of document %d, of %d positions, differs from that of the document alone", i, n)
				}
				near(t, "gradient of a document's inputs", du[lo*dModel:][:n*dModel], oneDu, gradTol)
				for role, g := range one {
					if sums[role] == nil {
						sums[role] = make([]float32, len(g))
					}
					for j, x := range g {
						sums[role][j] += x
					}
				}
				lo += n
			}
			for role, g := range params {
				near(t, "gradient of parameters", g, sums[role], gradTol)
			}
		})
	}
}
