package train

import (
	"fmt"
	"path/filepath"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/tensor"
)

// averageFile is the name of the file in a checkpoint that holds the averages of the weights.
const averageFile = "average.safetensors"

// average is an exponential moving average of the trained weights (Polyak and Juditsky 1992, doi 10.1137/0330046):
//
//	a ← a + (1-d)·(w - a),  d = min(decay, (1+n)/(10+n)) after n updates
//
// The first averages cover few updates, as the earliest weights have hardly learnt anything. Training continues from
// the weights themselves. The averages are measured, sampled and kept as the best model.
type average struct {
	decay  float64
	opt    *optim.AdamW
	params []optim.Param
	values []*tensor.Tensor // the averages or, while those are in the model, the weights
}

// newAverage returns an average that starts at the current weights, or nil if decay is 0.
func newAverage(decay float64, opt *optim.AdamW, params []optim.Param) *average {
	if decay == 0 {
		return nil
	}
	return &average{decay, opt, params, opt.Values()}
}

// add adds the weights after n updates to the average.
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

// TakeAverage replaces the model's last weights by their averages, if the run has any. No update may follow.
func (l *Training) TakeAverage() {
	if l.average != nil {
		l.opt.Swap(l.average.values)
	}
}

// save writes the averages into a checkpoint's folder.
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

// restore reads what save wrote. If there is no file, the average starts at the weights.
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
