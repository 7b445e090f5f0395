package engine

import "github.com/hippo-ssm/hippo/tensor"

// Routed are the operations of mixtures of experts: layers of which each position uses only a few.
type Routed interface {
	// Route returns the weight of every expert for every position: scores, weights (n, e). Weights of experts that are
	// not chosen are zero. bias (e) or nil affects only the choice, and gets no gradient.
	Route(scores, bias *tensor.Tensor, by Routing) *tensor.Tensor
	// Experts returns y[i] = Σ_e weights[i, e]·MLP_e(x[i]) over the e whose weight is not zero, x (n, d), weights (n,
	// e). Other experts do not compute position i, and their weights for it get no gradient.
	Experts(x, weights *tensor.Tensor, of Experts) *tensor.Tensor
}

// Routing determines to which experts a position goes, and with which weights. For each position s is the softmax of
// its scores or, with Sigmoid, their sigmoids. The TopK experts with the largest s + bias are chosen; of equal ones the
// first. Their weights are Scale·s or, with Normalize, Scale·s/(Eps + Σ s), the sum over the chosen experts.
type Routing struct {
	TopK               int
	Sigmoid, Normalize bool
	Eps, Scale         float64
	// Groups above 1 divides the experts into that many groups of equal size. Experts are chosen only from the
	// TopGroups groups with the largest sums of their two best s + bias (arXiv:2412.19437, §2.1.2).
	Groups, TopGroups int
}

// Experts are MLPs of equal shapes, each of f inner channels: MLP_e(x) = FC2[e]·(FC1[e]·x ⊙ a(Gate[e]·x)), or
// FC2[e]·a(FC1[e]·x) without gates. FC1, Gate (f, d), FC2 (d, f).
type Experts struct {
	FC1, Gate, FC2 []*tensor.Tensor
	Activation     Activation
}

// Choose sets chosen for the TopK largest keys, s + bias, of one position. All engines use it to choose.
func Choose[F float32 | float64](by Routing, keys []F, chosen []bool) {
	clear(chosen)
	for range by.TopK {
		best := -1
		for e, k := range keys {
			if !chosen[e] && (best < 0 || k > keys[best]) && admits(by, keys, e) {
				best = e
			}
		}
		if best >= 0 {
			chosen[best] = true
		}
	}
}

// admits reports whether expert e is in one of the groups to choose from: fewer than TopGroups groups are better.
func admits[F float32 | float64](by Routing, keys []F, e int) bool {
	if by.Groups <= 1 {
		return true
	}
	size := len(keys) / by.Groups
	own := e / size
	mine, better := twoBest(keys[own*size:][:size]), 0
	for g := range by.Groups {
		if sum := twoBest(keys[g*size:][:size]); sum > mine || sum == mine && g < own {
			better++
		}
	}
	return better < by.TopGroups
}

// twoBest returns the sum of the two largest keys, or the key if there is only one.
func twoBest[F float32 | float64](keys []F) F {
	if len(keys) == 1 {
		return keys[0]
	}
	first, second := max(keys[0], keys[1]), min(keys[0], keys[1])
	for _, k := range keys[2:] {
		if k > first {
			first, second = k, first
		} else if k > second {
			second = k
		}
	}
	return first + second
}
