package memory

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hippo-ssm/hippo/mixer"
)

// stateRule is the rule by which a part S of a state changes from token to token: S_t = Φ_t S_{t-1} + w_t. Φ_t and w_t,
// which is what is written, depend on the tokens. Φ_t does not depend on S.
type stateRule int

const (
	// ruleDecay multiplies each number by a factor of its own, which may depend on the token: Mamba, RG-LRU, retention.
	ruleDecay stateRule = iota
	// ruleModes multiplies each pair of numbers by a complex factor: the diagonal systems of H3, S4D, DSS and GSS.
	ruleModes
	// ruleRegister moves all numbers of a channel by one place: the last inputs of a filter, the shift of H3.
	ruleRegister
	// ruleMatrix multiplies the numbers of each channel by a matrix: S4.
	ruleMatrix
	// ruleTanh is s = tanh(x + R s) in its first numbers and x + R s in the others. With the gates g = s/(x + R s) held
	// fixed, s = g ⊙ (x + R s): Elman's network and the LMU.
	ruleTanh
	// ruleRows keeps a row for each token, up to a maximum number: attention.
	ruleRows
	// ruleUnknown is a part that is not linear in itself.
	ruleUnknown
)

// statePart is a tensor of a mixer's state and its rule.
type statePart struct {
	name  string
	shape []int
	rule  stateRule

	// Number of channels, and numbers in each. Number i of channel c is at index c·cStep + i·iStep.
	channels, inner, cStep, iStep int

	// For decays, modes, registers and matrices:
	fixed bool      // Φ is the same at every token
	a     []float64 // factors: fixed decays for each number; modes for each pair; gates where they act
	m     []float64 // matrices, (channels, inner, inner)
	same  bool      // decays are equal within a channel
	turn  int       // for registers: the distance that a number moves

	// One direction: what is written into channel c is x·b_c, where the number x depends on the token.
	b []float64 // nil if there is none

	r       []float32 // R of ruleTanh, (n, n)
	tanhs   int
	kept    int  // for rows: the maximum number, 0 for no limit
	rowAxis int  // axis of the rows
	gate    bool // a applies only when the state changes: at the ends of blocks
}

func (p *statePart) size() int { return p.channels * p.inner }

// steps reports whether the part must be observed after every token.
func (p *statePart) steps() bool { return p.rule != ruleRows }

// probeScale is the size of the values with which transitions are measured. It is far larger than what is written, so
// that differences are exact up to rounding.
const probeScale = 1 << 14

// lookAt is the token at which a rule is learned. The rule is tested at about twice this number.
const lookAt = 20

// tolerance is the maximum difference between a measured response and that of a rule, relative to the values.
const tolerance = 2e-4

// partsOf determines the parts of a mixer's state by experiment: it sets a part to several values, and compares the
// values after a token with each rule.
func (w *stateWalk) partsOf() ([]*statePart, error) {
	mid := min(w.l/2, lookAt)
	w.prepare(0, 1, min(2, w.l), mid, min(w.l-1, 2*lookAt+1))
	one, two := w.before(min(1, w.l)), w.before(min(2, w.l))
	_, shapes := shapesIn(one)
	_, later := shapesIn(two)
	known := w.knownParts()
	s := w.before(mid)
	var parts []*statePart
	for _, part := range mixer.StateParts(one) {
		name, shape := part.Name, shapes[part.Name]
		remembers := part.Kind == mixer.Numbers || part.Kind == mixer.PositionRows
		if !remembers || slices.Contains(shape, 0) {
			continue
		}
		p := known[name]
		switch {
		case p != nil:
			p.name, p.shape = name, shape
			p.lay()
		case !slices.Equal(shape, later[name]):
			p = &statePart{name: name, rule: ruleRows}
			w.rows(p, shape, later[name])
		default:
			p = &statePart{name: name, shape: shape}
			p.lay()
			if err := w.learn(p, mid, s); err != nil {
				return nil, err
			}
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// lay makes the first axis of a part that of its channels.
func (p *statePart) lay() {
	p.channels, p.inner = p.shape[0], 1
	for _, n := range p.shape[1:] {
		p.inner *= n
	}
	p.cStep, p.iStep = p.inner, 1
}

// knownParts returns the parts that an experiment would not reveal.
func (w *stateWalk) knownParts() map[string]*statePart {
	defer w.tape.Reset()
	parts := map[string]*statePart{}
	for name, r := range mixer.StateRules(w.tape, w.m) {
		p := &statePart{rule: ruleUnknown}
		switch {
		case r.Transition != nil:
			p.rule, p.r, p.tanhs = ruleTanh, r.Transition.Floats(), r.Tanhs
		case r.Gates != nil:
			p.rule, p.fixed, p.gate, p.a = ruleDecay, true, true, r.Gates
		}
		parts[name] = p
	}
	return parts
}

// rows describes a part with a row for each token. The maximum number of rows is that at the end of the sequence.
func (w *stateWalk) rows(p *statePart, one, two []int) {
	for i := range one {
		if i < len(two) && one[i] != two[i] {
			p.rowAxis = i
		}
	}
	_, shapes := shapesIn(w.before(w.l))
	p.shape = shapes[p.name]
	if n := p.shape[p.rowAxis]; n < w.l {
		p.kept = n
	}
	p.channels, p.inner = 1, 1
	for i, n := range p.shape {
		if i != p.rowAxis {
			p.inner *= n
		}
	}
}

// learn determines the rule of a part from the effect of the token at a position.
func (w *stateWalk) learn(p *statePart, at int, s mixer.State) error {
	n := p.size()
	rng := rand.New(rand.NewPCG(1, 17))
	zero, all, left, random := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range n {
		all[i] = probeScale
		if i%2 == 0 {
			left[i] = probeScale
		}
		random[i] = float32((0.5 + rng.Float64()) * probeScale)
		if rng.IntN(2) == 0 {
			random[i] = -random[i]
		}
	}
	out, err := w.probe(at, s, p.name, p.shape, zero, all, left, random)
	if err != nil {
		return err
	}
	for _, y := range out[1:] {
		for i := range y {
			y[i] -= out[0][i]
		}
	}
	last := min(w.l-1, 2*lookAt+1)
	// The rule must also give the right result for other values, and at another token.
	agrees := func(x, y []float32) bool {
		z := make([]float64, n)
		for i, v := range x {
			z[i] = float64(v)
		}
		p.carry(nil, nil, z)
		for i, v := range y {
			if !(math.Abs(z[i]-float64(v)) <= tolerance*probeScale) {
				return false
			}
		}
		return true
	}
	try := func(set func() bool) bool { return set() && agrees(random, out[3]) }
	p.fixed = true
	found := try(func() bool { p.setDecays(out[1]); return true }) ||
		try(func() bool { return p.setModes(out[2]) }) || try(func() bool { return p.setRegister(random, out[3]) })
	if !found {
		if found, err = w.matrix(p, at, s); err != nil {
			return err
		}
		found = found && agrees(random, out[3])
	}
	if !found {
		*p = statePart{name: p.name, shape: p.shape, rule: ruleUnknown, channels: p.channels, inner: p.inner,
			cStep: p.inner, iStep: 1}
		return nil
	}
	end := w.before(last)
	other, err := w.probe(last, end, p.name, p.shape, zero, random)
	if err != nil {
		return err
	}
	for i := range other[1] {
		other[1][i] -= other[0][i]
	}
	p.fixed = agrees(random, other[1]) && (p.rule != ruleDecay || steady(p.a, random, other[1]))
	if !p.fixed && p.rule != ruleDecay {
		p.rule = ruleUnknown
		return nil
	}
	if p.fixed {
		return w.direction(p, at)
	}
	return nil
}

// steady reports whether the decays at another token, y/x, equal a. It is stricter than agrees, since a small error in
// a decay near 1 adds up over many tokens.
func steady(a []float64, x, y []float32) bool {
	for i := range a {
		if math.Abs(float64(y[i])/float64(x[i])-a[i]) > 2e-6 {
			return false
		}
	}
	return true
}

// setDecays sets the rule ruleDecay from the response to equal values.
func (p *statePart) setDecays(y []float32) {
	p.rule, p.same, p.a = ruleDecay, true, make([]float64, len(y))
	for i, v := range y {
		p.a[i] = float64(v) / probeScale
		p.same = p.same && math.Abs(p.a[i]-p.a[i/p.inner*p.inner]) < 1e-6
	}
}

// setModes sets the rule ruleModes from the response to pairs (1, 0). It reports whether the shape permits this.
func (p *statePart) setModes(y []float32) bool {
	if p.shape[len(p.shape)-1] != 2 {
		return false
	}
	p.rule, p.a = ruleModes, make([]float64, len(y))
	for i, v := range y {
		p.a[i] = float64(v) / probeScale
	}
	return true
}

// setRegister determines the direction in which the numbers x have moved, and reports whether there is one.
func (p *statePart) setRegister(x, y []float32) bool {
	if len(p.shape) != 2 {
		return false
	}
	rows, cols := p.shape[0], p.shape[1]
	for _, axis := range []int{0, 1} {
		for _, turn := range []int{-1, 1} {
			p.rule, p.turn, p.a = ruleRegister, turn, nil
			p.channels, p.inner, p.cStep, p.iStep = rows, cols, cols, 1
			if axis == 0 {
				p.channels, p.inner, p.cStep, p.iStep = cols, rows, 1, cols
			}
			z := make([]float64, len(x))
			for i, v := range x {
				z[i] = float64(v)
			}
			p.carry(nil, nil, z)
			same := true
			for i, v := range y {
				same = same && math.Abs(z[i]-float64(v)) <= tolerance*probeScale
			}
			if same {
				return true
			}
		}
	}
	p.lay()
	return false
}

// maxMatrix is the maximum number of numbers of a channel whose matrix is measured.
const maxMatrix = 256

// matrix measures the rule ruleMatrix: the responses to each unit vector, in all channels at once.
func (w *stateWalk) matrix(p *statePart, at int, s mixer.State) (bool, error) {
	n, size := p.inner, p.size()
	if n < 2 || n > maxMatrix {
		return false, nil
	}
	values := [][]float32{make([]float32, size)}
	for j := range n {
		v := make([]float32, size)
		for c := range p.channels {
			v[c*n+j] = probeScale
		}
		values = append(values, v)
	}
	p.rule, p.a, p.m = ruleMatrix, nil, make([]float64, size*n)
	for from := 1; from <= n; from += 8 { // a few at a time, as each has its own state
		some := append([][]float32{values[0]}, values[from:min(n+1, from+8)]...)
		out, err := w.probe(at, s, p.name, p.shape, some...)
		if err != nil {
			return false, err
		}
		for k, y := range out[1:] {
			for i := range y {
				p.m[i*n+from-1+k] = (float64(y[i]) - float64(out[0][i])) / probeScale
			}
		}
	}
	return true, nil
}
