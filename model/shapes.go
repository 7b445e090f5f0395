package model

import (
	"fmt"
	"math/bits"

	"github.com/hippo-ssm/hippo/nn"
)

// Shape describes a parameter: its official name, its shape, its number of elements, and whether it is trained.
type Shape struct {
	Name    string
	Dims    []int
	Len     int
	Trained bool
}

// Shapes lists the parameters of a language model in the order of its checkpoints. It allocates no values, so a
// configuration can be compared with a file, or with the machine's memory, before the model is built.
func (c *Config) Shapes() ([]Shape, error) {
	m, err := New(*c)
	if err != nil {
		return nil, err
	}
	return shapesOf(m)
}

const (
	// maxSize bounds a size in a configuration, so that small multiples of it fit into an int.
	maxSize = 1 << 30
	// maxParams bounds the parameters of a model, so that the bytes of weights, gradients and moments fit into an int.
	maxParams = 1 << 48
)

// shapesOf lists the parameters of a module. It checks their number, because the sizes may come from a hostile file and
// nothing checks it later.
func shapesOf(m nn.Module) ([]Shape, error) {
	var all []Shape
	var err error
	total := 0
	m.Params("", func(name string, p *nn.Param) {
		if err != nil {
			return
		}
		n := 1
		for _, d := range p.Shape() {
			hi, lo := bits.Mul64(uint64(n), uint64(d)) // a negative size becomes a very large one here
			if n = int(lo); hi != 0 || lo > maxParams {
				n = maxParams + 1
				break
			}
		}
		if total += n; total > maxParams {
			err = fmt.Errorf("%s: found shape %v, want a model of at most 2^48 parameters", name, p.Shape())
		}
		all = append(all, Shape{Name: name, Dims: p.Shape(), Len: n, Trained: p.NeedsGrad()})
	})
	return all, err
}
