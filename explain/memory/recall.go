package memory

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// recall is an engine for a walk. A walk passes every token through its mixer several times, always as part of the same
// sequence. So the products of the mixer's input with its matrices are computed once for all tokens, and then looked
// up. The product that gives the mixer's output is omitted, since a walk only observes states.
type recall struct {
	engine.Engine
	w *stateWalk
}

// linear is a product y = a(x Wᵀ + bias).
type linear struct {
	w, bias *tensor.Tensor
	a       engine.Activation
}

// recalled caches the products of a walk's mixer.
type recalled struct {
	in   *tensor.Tensor // input of the current run: the tokens at the positions at
	at   []int
	of   map[linear][]float32 // products for all tokens
	kept int                  // total number of cached elements
	last linear               // the last product that was not of in, and its result
	made *tensor.Tensor
	out  map[linear]bool // products that give the mixer's output

	whole *tensor.Tensor // the whole sequence, as the model passes it to the mixer
}

// mostRecalled is the maximum number of cached elements for a sequence.
const mostRecalled = 16 << 20

// Linear looks up products of the mixer's input.
func (e recall) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	k, p := linear{w, bias, a}, &e.w.products
	if x != p.in {
		if p.out[k] {
			return e.Engine.New(x.Rows(), w.Dim(0))
		}
		p.last, p.made = k, e.Engine.Linear(x, w, bias, a)
		return p.made
	}
	n := w.Dim(0)
	all := p.of[k]
	if all == nil {
		if p.kept+e.w.l*n > mostRecalled {
			return e.Engine.Linear(x, w, bias, a)
		}
		u := e.Engine.New(e.w.l, e.w.d)
		u.CopyFrom(e.w.u)
		all = e.Engine.Linear(u, w, bias, a).Floats()
		p.of[k], p.kept = all, p.kept+len(all)
	}
	rows := make([]float32, 0, len(p.at)*n)
	for _, t := range p.at {
		rows = append(rows, all[t*n:][:n]...)
	}
	y := e.Engine.New(len(p.at), n)
	y.CopyFrom(rows)
	return y
}

// begin sets the mixer's input: the tokens at some positions.
func (p *recalled) begin(in *tensor.Tensor, at []int) { p.in, p.at, p.made = in, at, nil }

// end records the mixer's output.
func (p *recalled) end(y *tensor.Tensor) {
	if y == p.made {
		p.out[p.last] = true
	}
	p.in, p.made = nil, nil
}

// lookUp is an engine for the model whose layers are walked through. For the current layer, it reuses the products of
// the mixer's whole sequence that the walk has computed.
type lookUp struct {
	engine.Engine
	now **stateWalk
}

// Linear looks up products of the input of the walk's mixer.
func (e lookUp) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	if now := *e.now; now != nil && now.products.whole == x {
		if all := now.products.of[linear{w, bias, a}]; all != nil {
			y := e.Engine.New(x.Rows(), w.Dim(0))
			y.CopyFrom(all)
			return y
		}
	}
	return e.Engine.Linear(x, w, bias, a)
}
