package train

import (
	"fmt"
	"path/filepath"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/tensor"
)

// averageFile holds the averages of weights in a checkpoint that a run continues from.
const averageFile = "average.safetensors"

// average is an exponential moving average of the weights that are trained (Polyak and Juditsky 1992, doi
// 10.1137/0330046):
//
//	a ← a + (1-d)·(w - a),  d = min(decay, (1+n)/(10+n)) after n updates
//
// The first averages are over few updates, as those before have hardly learnt anything. Training continues from the
// weights themselves; what is measured, sampled and kept as the best are the averages.
type average struct {
	decay  float64
	opt    *optim.AdamW
	params []optim.Param
	values []*tensor.Tensor // of the averages or, while those are in the model, of the weights
}

// newAverage starts with the weights as they are. It is nil without a decay.
func newAverage(decay float64, opt *optim.AdamW, params []optim.Param) *average {
	if decay == 0 {
		return nil
	}
	return &average{decay, opt, params, opt.Values()}
}

// add takes the weights in after n updates.
func (a *average) add(n int) {
	if a != nil {
		a.opt.Average(a.values, min(a.decay, float64(1+n)/float64(10+n)))
	}
}

// with runs f with the averages in place of the weights.
func (a *average) with(f func() error) error {
	if a == nil {
		return f()
	}
	a.opt.Swap(a.values)
	defer a.opt.Swap(a.values)
	return f()
}

// TakeAverage gives the model the averages of its weights, if the run has them, in place of the last weights. The run
// has ended: no update follows.
func (l *Training) TakeAverage() {
	if l.average != nil {
		l.opt.Swap(l.average.values)
	}
}

// save writes the averages into the folder of a checkpoint.
func (a *average) save(dir string) error {
	if a == nil {
		return nil
	}
	var all []checkpoint.Tensor
	for i, p := range a.params {
		all = append(all, checkpoint.NewTensor(p.Name, p.Shape(), a.values[i].Elements()))
	}
	return WriteTensors(filepath.Join(dir, averageFile), all)
}

// restore reads what save wrote. A run that has had no average until now starts with the weights.
func (a *average) restore(dir string) error {
	path := filepath.Join(dir, averageFile)
	if a == nil || !disk.Exists(path) {
		return nil
	}
	f, err := checkpoint.OpenSafetensors(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for i, p := range a.params {
		name := p.Name
		x, ok := f.Tensor(name)
		if !ok {
			return fmt.Errorf("%s: missing %s", path, name)
		}
		v, err := x.Float32()
		if err == nil && len(v) != p.Len() {
			err = fmt.Errorf("found %d values, want %d", len(v), p.Len())
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", path, name, err)
		}
		a.values[i].CopyFrom(v)
	}
	return nil
}
