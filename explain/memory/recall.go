package memory

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// recall is an engine for a walk. A walk passes every token through its mixer several times, always as part of the same
// sequence: so the products of what the mixer is given with its matrices are made once, of all tokens, and looked up.
// The product that makes what the mixer returns is left out, as a walk looks at states alone.
type recall struct {
	engine.Engine
	w *stateWalk
}

// linear is a product y = a(x Wᵀ + bias).
type linear struct {
	w, bias *tensor.Tensor
	a       engine.Activation
}

// recalled is what a walk knows of the products of its mixer.
type recalled struct {
	in   *tensor.Tensor // of the run that goes on, the tokens at the positions at
	at   []int
	of   map[linear][]float32 // products of all tokens
	kept int                  // numbers of these
	last linear               // the last product that was not of in, and what it made
	made *tensor.Tensor
	out  map[linear]bool // products that make what the mixer returns

	whole *tensor.Tensor // the whole sequence, as the model gives it to the mixer
}

// mostRecalled is how many numbers are kept of the products of a sequence.
const mostRecalled = 16 << 20

// Linear looks up products of what the mixer is given.
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

// begin says what the mixer is given: the tokens at some positions.
func (p *recalled) begin(in *tensor.Tensor, at []int) { p.in, p.at, p.made = in, at, nil }

// end says what the mixer returned.
func (p *recalled) end(y *tensor.Tensor) {
	if y == p.made {
		p.out[p.last] = true
	}
	p.in, p.made = nil, nil
}

// lookUp is an engine for the model whose layers are walked through, now through one: what the walk has made of the
// products of its mixer's whole sequence need not be made again.
type lookUp struct {
	engine.Engine
	now **stateWalk
}

// Linear looks up products of what the walk's mixer is given.
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
