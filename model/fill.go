package model

import (
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

// filling is how every model gets its values from a file: compare, for all parameters, then fill. There is memory for
// values only after every shape has been found in the file, so that sizes of a configuration cost no more than the file
// has.
type filling struct {
	f        *checkpoint.File
	problems config.Problems
	names    []string
	params   []*nn.Param
	sources  []*checkpoint.Tensor
	elements int
}

// compareAll finds the tensors of all parameters of m. What is missing or misshapen, and what is no parameter and may
// not be there, is a problem.
func (w Weights) compareAll(m nn.Module) *filling {
	l := &filling{f: w.File}
	keys := maps.Clone(w.Keys)
	l.compare(m, "", keys)
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if w.Extra == nil {
			l.problems.Addf(name, "unexpected")
		} else if err := w.Extra(name, keys[name]); err != nil {
			l.problems.Addf(name, "%v", err)
		}
	}
	return l
}

// compare finds the tensor of each parameter of m under the key that keys has for its name, and takes these keys away.
// What is missing or misshapen is a problem.
func (l *filling) compare(m nn.Module, prefix string, keys map[string]string) {
	m.Params(prefix, func(name string, p *nn.Param) {
		key, ok := keys[name]
		x, found := l.f.Tensor(key)
		if !ok || !found {
			l.problems.Addf(name, "missing, want shape %v", p.Shape())
			return
		}
		delete(keys, name)
		if !slices.Equal(x.Shape, p.Shape()) {
			l.problems.Addf(name, "found shape %v, want %v", x.Shape, p.Shape())
			return
		}
		l.names, l.params, l.sources = append(l.names, name), append(l.params, p), append(l.sources, x)
		if l.elements += x.Elements(); l.elements < 0 || l.elements > mostElements(l.f) {
			l.elements = math.MinInt // one word of it is enough
			l.problems.Addf(name,
				"found tensors that share their memory, with more numbers than a file of %d bytes may hold", l.f.Size())
		}
	})
}

// mostElements bounds the numbers of a file. A packed archive may hold more than it has bytes, and tensors in it may
// share memory.
func mostElements(f *checkpoint.File) int { return 16<<20 + 16*f.Size() }

// fill reads the values of all parameters, which compare has seen, and sets them, or nothing if there is a problem. The
// error lists all problems and ends with those of values that are not finite. With a precision, weight matrices go
// piece by piece from the file into their packed form.
func (l *filling) fill(packing *engine.Precision) error {
	var plain, packed []int
	for i, p := range l.params {
		if packing == nil || !packable(p) {
			plain = append(plain, i)
			continue
		}
		packed = append(packed, i)
		if err := checkPackable(p, *packing); err != nil {
			l.problems.Addf(l.names[i], "%v", err)
		}
	}
	if len(l.problems) > 0 {
		for i := range l.params {
			l.report(i, l.readAll(i, nil))
		}
		return l.err()
	}
	set := l.readPlain(plain)
	if len(packed) > 0 {
		set = append(set, l.readPacked(packed, *packing)...)
	}
	if len(l.problems) > 0 {
		return l.err()
	}
	for _, f := range set {
		f()
	}
	return nil
}

// report adds the problem of parameter i, unless err is nil.
func (l *filling) report(i int, err error) {
	if err != nil {
		l.problems.Addf(l.names[i], "%v", err)
	}
}

func (l *filling) err() error {
	return brief.Error(fmt.Errorf("%s does not fit the configuration: %w", l.f.Path(), l.problems.Err()))
}

func firstNonFinite(x []float32) int {
	carry := uint32(0) // of the largest exponent, which comes first in the magnitude, into the sign
	for _, v := range x {
		carry |= math.Float32bits(v)&0x7f800000 + 1<<23
	}
	if carry < 1<<31 {
		return -1
	}
	return slices.IndexFunc(x, func(v float32) bool { return math.Float32bits(v)&0x7f800000 == 0x7f800000 })
}

// checkFile checks what a file of weights must have whatever model it is of: tensors that are not empty, and no fewer
// of them than the layers of a plan, so that a configuration of few bytes cannot ask for more layers than there can be.
func checkFile(f *checkpoint.File, c *Config) error {
	if err := CheckTensors(f); err != nil {
		return err
	}
	if plan, err := c.Plan(); err == nil && len(plan) > len(f.Names()) {
		return fmt.Errorf("n_layer: found %d layers, want no more than the %d tensors of %s", len(plan),
			len(f.Names()), f.Path())
	}
	return nil
}

// CheckTensors reports a tensor without elements, which may have any size: [2^40, 0] takes no room in a file.
func CheckTensors(f *checkpoint.File) error {
	for _, name := range f.Names() {
		if x, _ := f.Tensor(name); slices.Contains(x.Shape, 0) {
			return brief.Error(fmt.Errorf("%s: %s: found shape %v, want no empty tensor in a file of weights",
				f.Path(), name, x.Shape))
		}
	}
	return nil
}
