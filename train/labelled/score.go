package labelled

import (
	"context"
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/train"
)

// tally accumulates a Score.
type tally struct {
	loss, absolute float64
	count, right   int
	tagRight       []int
	tagCount       []int
	out            []float32
}

// add adds the outputs y of a batch. loss is the mean over the batch's targets.
func (s *tally) add(b *batch, y *tensor.Tensor, loss float64) {
	s.loss += loss * float64(b.count)
	s.count += b.count
	s.out = append(s.out[:0], make([]float32, y.Len())...)
	y.CopyTo(s.out)
	if b.set.Numbers {
		width, middle := middleOf(b.set)
		for i, want := range b.numbers {
			if want == want { // not NaN
				s.absolute += math.Abs(float64(s.out[i*width+middle] - want))
			}
		}
		return
	}
	v := y.Dim(-1)
	for r, want := range b.targets {
		if want == task.Ignore {
			continue
		}
		right := argmax(s.out[r*v:][:v]) == want
		if right {
			s.right++
		}
		if len(b.tags) > 0 && b.tags[r] != task.Ignore {
			s.tagCount[b.tags[r]]++
			if right {
				s.tagRight[b.tags[r]]++
			}
		}
	}
}

// middleOf returns the number of outputs for each predicted number, and the index of the one nearest to the median.
func middleOf(set *task.Set) (width, middle int) {
	for i, level := range set.Levels {
		if math.Abs(float64(level)-0.5) < math.Abs(float64(set.Levels[middle])-0.5) {
			middle = i
		}
	}
	return max(1, len(set.Levels)), middle
}

func argmax(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

func (s *tally) score(set *task.Set) train.Score {
	n := float64(max(1, s.count))
	out := train.Score{Loss: s.loss / n, Count: s.count}
	if set.Numbers {
		out.MAE = s.absolute / n
		return out
	}
	out.Accuracy = 100 * float64(s.right) / n
	for i, name := range set.Tags {
		if s.tagCount[i] > 0 {
			out.Tags = append(out.Tags, train.TagScore{
				Name: name, Accuracy: 100 * float64(s.tagRight[i]) / float64(s.tagCount[i]), Count: s.tagCount[i],
			})
		}
	}
	return out
}

// score measures the network on the first limit examples of a split (0 for all).
func (w *Work) score(ctx context.Context, t *autograd.Tape, split task.Split, limit int) (train.Score, error) {
	w.tally = tally{tagRight: make([]int, len(w.Set.Tags)), tagCount: make([]int, len(w.Set.Tags)), out: w.tally.out}
	n := split.Len()
	if limit > 0 {
		n = min(n, limit)
	}
	train.ForMeasuring(t)
	b := &w.batch
	var indices []int
	for lo := 0; lo < n; lo += w.size {
		if err := ctx.Err(); err != nil {
			return train.Score{}, err
		}
		indices = indices[:0]
		for i := lo; i < min(n, lo+w.size); i++ {
			indices = append(indices, i)
		}
		if err := b.fill(split, indices); err != nil {
			return train.Score{}, err
		}
		for _, l := range b.lengths {
			if err := w.Net.Takes(l); err != nil {
				return train.Score{}, err
			}
		}
		t.Reset()
		y, loss := w.forward(t, b)
		w.tally.add(b, y, loss.Value())
	}
	return w.tally.score(w.Set), nil
}

// crossEntropy returns the mean over the targets of the cross-entropy times the weight of the target's class.
func crossEntropy(t *autograd.Tape, y *tensor.Tensor, b *batch) *tensor.Tensor {
	if b.set.Weights == nil || b.count == 0 {
		return t.CrossEntropy(y, b.targets)
	}
	var loss *tensor.Tensor
	for class, weight := range b.set.Weights {
		only, n := make([]int32, len(b.targets)), 0
		for i, id := range b.targets {
			if only[i] = task.Ignore; id == int32(class) {
				only[i], n = id, n+1
			}
		}
		if n == 0 {
			continue
		}
		one := t.Scale(t.CrossEntropy(y, only), float64(weight)*float64(n)/float64(b.count))
		if loss != nil {
			one = t.Add(loss, one)
		}
		loss = one
	}
	return loss
}

// forward returns the network's outputs and the loss. If targets are numbers it returns only the outputs at positions
// that have numbers to predict.
func (w *Work) forward(t *autograd.Tape, b *batch) (y, loss *tensor.Tensor) {
	y = w.Net.Forward(t, b.in)
	if !b.set.Numbers {
		return y, crossEntropy(t, y, b)
	}
	if b.set.Everywhere && len(b.numbers) < y.Rows()*b.set.Asked() {
		at := make([]int, b.n)
		for i, l := range b.lengths {
			at[i] = l - b.asked[i]
		}
		y = t.Cut(y, engine.NewRows(b.lengths...), at, b.asked)
	}
	if len(b.set.Levels) > 0 {
		return y, t.Pinball(y, b.numbers, b.set.Levels)
	}
	return y, t.SquaredError(y, b.numbers)
}
