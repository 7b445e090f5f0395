package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/nn"
)

// filling fills the parameters of a model from a file: call compare for all parameters, then fill. It allocates values
// only after it has found all shapes in the file. So the sizes in a configuration cannot cost more memory than the file
// justifies.
type filling struct {
	f        *checkpoint.File
	backend  engine.Backend // packs matrices
	problems config.Problems
	names    []string
	params   []*nn.Param
	sources  [][]checkpoint.Tensor // tensors of each parameter, one after another by rows
	told     map[string]bool       // tensors with a reported problem
	elements int
}

// compareAll finds the tensors of all parameters of m. It reports missing and misshapen tensors, and tensors that are
// neither parameters nor permitted.
func (w Weights) compareAll(m nn.Module) *filling {
	l := &filling{f: w.File, told: map[string]bool{}}
	keys := maps.Clone(w.Keys)
	l.compare(m, w, keys)
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if w.Extra == nil {
			l.problems.Addf(name, "unexpected")
		} else if err := w.Extra(name, keys[name]); err != nil {
			l.problems.Addf(name, "%v", err)
		}
	}
	return l
}

// compare finds the tensors of each parameter of m and removes their keys. It reports missing and misshapen tensors.
func (l *filling) compare(m nn.Module, w Weights, keys map[string]string) {
	m.Params("", func(name string, p *nn.Param) {
		sources := w.of(name)
		shares := 0
		for _, s := range sources {
			shares += max(1, s.Share)
		}
		var parts []checkpoint.Tensor
		for _, s := range sources {
			shape := p.Shape()
			shape[0] = shape[0] / shares * max(1, s.Share)
			if x, ok := l.find(s, shape, w, keys); ok {
				parts = append(parts, x)
			}
		}
		if len(parts) < len(sources) {
			return
		}
		l.names, l.params, l.sources = append(l.names, name), append(l.params, p), append(l.sources, parts)
		if l.elements += p.Len(); l.elements < 0 || l.elements > mostElements(l.f) {
			l.elements = math.MinInt // one report is enough
			l.problems.Addf(name,
				"found tensors that share their memory, with more numbers than a file of %d bytes may hold", l.f.Size())
		}
	})
}

// find returns the tensor of a source after checking its shape.
func (l *filling) find(s Source, shape []int, w Weights, left map[string]string) (checkpoint.Tensor, bool) {
	parts, whole := max(1, s.Of), s.Whole(shape)
	key, ok := w.Keys[s.Name]
	x, found := l.f.Tensor(key)
	if !ok || !found {
		if w.Made != nil {
			if name, shape, ok := w.Made(s.Name); ok {
				s.Name, whole = name, shape
			}
		}
		return l.problem(s, "missing, want shape %v", whole)
	}
	delete(left, s.Name)
	if !slices.Equal(x.Shape, whole) {
		return l.problem(s, "found shape %v, want %v", x.Shape, whole)
	}
	y := *x
	y.Name, y.Shape = s.Name, shape
	if parts > 1 {
		if len(x.Data)%parts != 0 {
			return l.problem(s, "found elements of type %s, want some that can be cut into %d parts", x.DType, parts)
		}
		n := len(x.Data) / parts
		y.Data = x.Data[s.Part*n:][:n]
	}
	return y, true
}

// problem reports a problem with a tensor, unless one has been reported before: several parameters may have parts of
// one tensor.
func (l *filling) problem(s Source, format string, args ...any) (checkpoint.Tensor, bool) {
	if !l.told[s.Name] {
		l.told[s.Name] = true
		l.problems.Addf(s.Name, format, args...)
	}
	return checkpoint.Tensor{}, false
}

// Whole returns the shape of a tensor from the shape of one of its parts.
func (s Source) Whole(part []int) []int {
	rows := slices.Clone(part)
	rows[0] *= max(1, s.Of)
	if s.Stack > 0 {
		rows[0] /= s.Stack
		rows = append([]int{s.Stack}, rows...)
	}
	return rows
}

// mostElements bounds the number of values in a file. A packed archive may hold more values than bytes, and its tensors
// may share memory.
func mostElements(f *checkpoint.File) int { return 16<<20 + 16*f.Size() }

// fill reads and sets the values of all parameters that compare has found. If there is a problem, it sets none. The
// error lists all problems, with those of non-finite values last. If pack is not nil, weight matrices are packed piece
// by piece as they are read from the file.
func (l *filling) fill(pack *packing) error {
	var plain []int
	packed := map[form][]int{}
	for i, p := range l.params {
		if pack == nil || !packable(p) {
			plain = append(plain, i)
			continue
		}
		how := pack.form(p, l.sources[i])
		packed[how] = append(packed[how], i)
	}
	if len(l.problems) > 0 {
		for i := range l.params {
			l.report(l.tryAll(i))
		}
		return l.err()
	}
	set := l.readPlain(plain)
	for _, how := range slices.SortedFunc(maps.Keys(packed), func(a, b form) int {
		return cmp.Or(cmp.Compare(a.precision, b.precision), cmp.Compare(a.as, b.as))
	}) {
		set = append(set, l.readPacked(packed[how], how)...)
	}
	if len(l.problems) > 0 {
		return l.err()
	}
	for _, f := range set {
		f()
	}
	return nil
}

// report adds the problem of a tensor, if there is one.
func (l *filling) report(bad *badTensor) {
	if bad != nil {
		l.problems.Addf(bad.name, "%v", bad.err)
	}
}

func (l *filling) err() error {
	return brief.Error(fmt.Errorf("%s does not fit the configuration: %w", l.f.Path(), l.problems.Err()))
}

func firstNonFinite(x []float32) int {
	carry := uint32(0) // carries the largest exponent, at the top of the magnitude, into the sign bit
	for _, v := range x {
		carry |= math.Float32bits(v)&0x7f800000 + 1<<23
	}
	if carry < 1<<31 {
		return -1
	}
	return slices.IndexFunc(x, func(v float32) bool { return math.Float32bits(v)&0x7f800000 == 0x7f800000 })
}

// checkFile checks that no tensor in a file of weights is empty, and that the file is large enough for the layers and
// the experts of the plan. So a configuration of a few bytes cannot request a huge model.
func checkFile(f *checkpoint.File, c *Config) error {
	if err := CheckTensors(f); err != nil {
		return err
	}
	plan, err := c.Plan()
	if err != nil {
		return nil // reported when the model is built
	}
	if len(plan) > len(f.Names()) {
		return fmt.Errorf("n_layer: found %d layers, want at most the %d tensors of %s", len(plan),
			len(f.Names()), f.Path())
	}
	if n := c.experts(plan); n > f.Size()/leastExpert {
		return fmt.Errorf("experts: found %d in all layers, want at most what fits into the %d bytes of %s",
			n, f.Size(), f.Path())
	}
	return nil
}

// CheckTensors returns an error if a tensor has no elements. A shape such as [2^40, 0] takes no space in a file.
func CheckTensors(f *checkpoint.File) error {
	for _, name := range f.Names() {
		if x, _ := f.Tensor(name); slices.Contains(x.Shape, 0) {
			return brief.Error(fmt.Errorf("%s: %s: found shape %v, want no empty tensor in a file of weights",
				f.Path(), name, x.Shape))
		}
	}
	return nil
}
