package train

import (
	"strings"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/tensor"
)

// Exports for tests outside of the package, which train models: the parts of an update.

func (l *Training) Read() (int, error)          { return l.work.Read(0) }
func (l *Training) Shards(examples int) []Shard { return l.shards(examples, l.step) }
func (l *Training) BeginSum(shards int)         { l.sum.begin(shards) }
func (l *Training) NewGradients() *autograd.Gradients {
	return autograd.NewGradients(l.opt.Backend(), l.opt.Tensors()...)
}
func (l *Training) Weights() []*tensor.Tensor  { return l.opt.Values() }
func (l *Training) Averages() []*tensor.Tensor { return l.average.values }

func (l *Training) AddShard(i int, g *autograd.Gradients) *autograd.Gradients { return l.sum.put(i, g) }

func (l *Training) Shard(s Shard, alone bool, g *autograd.Gradients) (mean, weight float64, err error) {
	ForUpdates(l.tape, l.precision)
	return l.shard(l.tape, s, alone, g)
}

// Elements returns the elements of all gradients.
func Elements(g *autograd.Gradients) (all [][]float32) {
	for _, x := range g.Each() {
		all = append(all, x.Elements())
	}
	return all
}

// Named returns the parameters by name.
func (l *Training) Named() map[string]*tensor.Tensor {
	named, i := map[string]*tensor.Tensor{}, 0
	l.opt.Moments(func(name string, _ *tensor.Tensor) {
		if name, first := strings.CutSuffix(name, ".exp_avg"); first {
			named[name] = l.opt.Tensors()[i]
			i++
		}
	})
	return named
}
