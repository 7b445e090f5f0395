package action

import "github.com/hippo-ssm/hippo/tensor"

// mostParts is the maximum lag of a short filter for which its values are separated by lag.
const mostParts = 64

// parts returns the input values of an operation along the sequence, separated by lag: how many positions ago they were
// the mixer's values. The lag is 0 if no short filter precedes the operation. ok is false if the values depend on the
// mixer's in another way.
func (a *Action) parts(x *tensor.Tensor, ones bool) (parts []part, ok bool) {
	if !a.e.known(x) {
		return nil, true
	}
	if !a.e.mixed(x) {
		return []part{{width: x.Dim(-1), x: a.values(x, ones)}}, true
	}
	s := a.by[x]
	if s.joined {
		return a.joined(s, ones)
	}
	if len(s.in) != 1 {
		return nil, false
	}
	f, filters := s.spread.(*filter)
	if !s.pointwise && s.at == nil && !filters {
		return nil, false
	}
	if parts, ok = a.parts(s.in[0], ones); !ok {
		return nil, false
	}
	switch {
	case s.pointwise:
		k := a.factors(s)
		for i := range parts {
			parts[i].x = product(parts[i].x, k)
		}
	case filters:
		return filtered(parts, f)
	default:
		for i, y := range s.out {
			if y == x {
				parts = columns(parts, s.at[i], y.Dim(-1))
			}
		}
	}
	return parts, true
}

// factors returns the numbers by which a pointwise step multiplies its value: the result for ones minus the result for
// zeros.
func (a *Action) factors(s *step) []float32 {
	mark := a.e.Engine.Mark()
	defer a.e.Engine.ReleaseSince(mark)
	x := tensor.New(s.in[0].Shape()...)
	x.Fill(0)
	zero := s.run(list{x})[0].Floats()
	x.Fill(1)
	k := s.run(list{x})[0].Floats()
	for i, v := range zero {
		k[i] -= v
	}
	return k
}

// columns returns the columns [at, at+width) of parts.
func columns(parts []part, at, width int) []part {
	out := make([]part, len(parts))
	for i, p := range parts {
		out[i] = part{lag: p.lag, width: width}
		for from := at; from < len(p.x); from += p.width {
			out[i].x = append(out[i].x, p.x[from:][:width]...)
		}
	}
	return out
}

// filtered returns parts after a short filter.
func filtered(parts []part, f *filter) ([]part, bool) {
	if len(parts)*f.width > mostParts {
		return nil, false
	}
	var out []part
	for _, p := range parts {
		for i := range f.width {
			tap, x := f.tap(i), make([]float32, len(p.x))
			for at := i * p.width; at < len(x); at++ {
				x[at] = tap[at%p.width] * p.x[at-i*p.width]
			}
			out = append(out, part{lag: p.lag + i, width: p.width, x: x})
		}
	}
	return merged(out), true
}

// merged adds up parts with the same lag.
func merged(parts []part) (out []part) {
	at := map[int]int{}
	for _, p := range parts {
		k, ok := at[p.lag]
		if !ok {
			at[p.lag] = len(out)
			out = append(out, p)
			continue
		}
		for i, v := range p.x {
			out[k].x[i] += v
		}
	}
	return out
}

// joined returns the parts of values that a step puts side by side.
func (a *Action) joined(s *step, ones bool) ([]part, bool) {
	var out []part
	width, at := s.out[0].Dim(-1), 0
	for _, x := range s.in {
		parts, ok := a.parts(x, ones)
		if !ok {
			return nil, false
		}
		for _, p := range parts {
			wide := make([]float32, len(p.x)/p.width*width)
			for i, v := range p.x {
				wide[i/p.width*width+at+i%p.width] = v
			}
			out = append(out, part{lag: p.lag, width: width, x: wide})
		}
		at += x.Dim(-1)
	}
	return merged(out), true
}
