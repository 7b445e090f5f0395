package compose

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Route calls engine.Choose on the host to pick the experts. It copies the keys out and the choice in.
func (e *Engine) Route(scores, bias *tensor.Tensor, by engine.Routing) *tensor.Tensor {
	return e.one("Route", func() *val {
		z := e.in(scores).rows()
		s := z
		if by.Sigmoid {
			s = z.sigmoid()
		} else {
			s = z.softmax()
		}
		keys := s.constant()
		if bias != nil {
			keys = keys.add(e.in(bias).constant().flat())
		}
		n := z.dim(1)
		choice, chosen := keys.read(), make([]bool, n)
		for r := range z.dim(0) {
			row := choice[r*n:][:n]
			engine.Choose(by, row, chosen)
			for i, ok := range chosen {
				if row[i] = 0; ok {
					row[i] = 1
				}
			}
		}
		s = s.where(e.upload(choice, z.shape...), e.full(0))
		if by.Normalize {
			s = s.div(s.sum().plus(by.Eps))
		}
		return s.scale(by.Scale).as(scores.Shape()...)
	})
}

// Experts computes, with each expert, the positions that use it. It copies the weights to the host to find them.
func (e *Engine) Experts(x, weights *tensor.Tensor, of engine.Experts) *tensor.Tensor {
	return e.one("Experts", func() *val {
		x, weights, count := e.in(x).rows(), e.in(weights).rows(), len(of.FC1)
		w := weights.read()
		y := e.full(0, x.shape...)
		for k := range count {
			var rows []int32
			for r := range x.dim(0) {
				if w[r*count+k] != 0 {
					rows = append(rows, int32(r))
				}
			}
			fc1, fc2 := e.in(of.FC1[k]), e.in(of.FC2[k])
			if len(rows) == 0 {
				continue
			}
			in := x.gather(rows)
			h := in.linear(fc1, nil)
			if len(of.Gate) > 0 {
				h = h.mul(in.linear(e.in(of.Gate[k]), nil).act(of.Activation))
			} else {
				h = h.act(of.Activation)
			}
			y = y.add(h.linear(fc2, nil).mul(weights.slice(1, k, 1).gather(rows)).scatter(rows, x.dim(0)))
		}
		return y.as(x.n.of.Shape()...)
	})
}

// scatter returns n rows: the rows of v at the given indices, and zeros elsewhere.
func (v *val) scatter(rows []int32, n int) *val {
	y := v.e.full(0, n, v.dim(1))
	v.e.core.Scatter(y.view(), v.view(), rows)
	return y.record(func() {
		if v.grad {
			v.addGrad(y.dy().gather(rows))
		}
	}, v)
}
