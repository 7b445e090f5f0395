package autograd

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Route chooses experts for each position from its scores (n, e). It returns the weights (n, e) with which Experts sums
// them, zero for experts that are not chosen. With s the softmax of the scores of a position, or their sigmoids:
//
//	chosen = the TopK largest s + bias,   weights = Scale·s, or Scale·s/(Eps + Σ_chosen s),   for the chosen
//
// bias, (e) or nil, balances the load of experts that are chosen by sigmoids (arXiv:2408.15664). No gradient flows to
// the bias or through the choice.
func (t *Tape) Route(scores, bias *tensor.Tensor, by engine.Routing) *tensor.Tensor {
	e := scores.Dim(-1)
	if bias != nil && bias.Len() != e {
		shapePanic("Route", scores, bias)
	}
	if err := CheckRouting(by, e); err != nil {
		panic("autograd.Route: " + err.Error())
	}
	return t.engine.Route(scores, bias, by)
}

// CheckRouting returns an error if a routing cannot choose among e experts.
func CheckRouting(by engine.Routing, e int) error {
	from := e // experts to choose from
	if by.Groups > 1 {
		if e%by.Groups != 0 || by.TopGroups < 1 || by.TopGroups > by.Groups {
			return fmt.Errorf("found %d of %d groups of %d experts, want groups of equal size, at least one of them",
				by.TopGroups, by.Groups, e)
		}
		from = e / by.Groups * by.TopGroups
	}
	switch {
	case by.TopK < 1 || by.TopK > from:
		return fmt.Errorf("found %d experts for each position, want 1 to %d", by.TopK, from)
	case !(by.Scale > 0) || !(by.Eps >= 0):
		return fmt.Errorf("found weights scaled by %g with an epsilon of %g, want more than 0 and at least 0", by.Scale,
			by.Eps)
	}
	return nil
}

// Experts computes a mixture of experts (arXiv:1701.06538): for each position, the weighted sum of MLPs
//
//	y[i] = Σ_e weights[i, e]·MLP_e(x[i])
//
// over the experts whose weight is not zero, in order, with x (n, d) and weights (n, e). Nothing is computed for the
// other experts.
func (t *Tape) Experts(x, weights *tensor.Tensor, of engine.Experts) *tensor.Tensor {
	e, d := len(of.FC1), x.Dim(-1)
	gates := len(of.Gate) == e
	if e == 0 || len(of.FC2) != e || !gates && len(of.Gate) != 0 || weights.Dim(-1) != e || weights.Rows() != x.Rows() {
		shapePanic("Experts", x, weights)
	}
	f := of.FC1[0].Dim(0)
	for i, fc1 := range of.FC1 {
		fc2 := of.FC2[i]
		if !isMatrix(fc1, f, d) || !isMatrix(fc2, d, f) || gates && !isMatrix(of.Gate[i], f, d) {
			shapePanic("Experts", x, fc1, fc2)
		}
		t.mustTrain("Experts", fc1)
		t.mustTrain("Experts", fc2)
	}
	return t.engine.Experts(x, weights, of)
}

// isMatrix reports whether the shape of w is (n, k).
func isMatrix(w *tensor.Tensor, n, k int) bool {
	return w.Dims() == 2 && w.Dim(0) == n && w.Dim(1) == k
}
