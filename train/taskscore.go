package train

import (
	"context"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/tensor"
)

// Score is how well a network does on examples.
type Score struct {
	Loss     float64 `json:"loss"` // cross-entropy in nats, or the mean squared error
	Accuracy float64 `json:"accuracy,omitempty"`
	MAE      float64 `json:"mae,omitempty"` // mean absolute error, of numbers
	Count    int     `json:"count"`         // targets
	// Tags are the accuracies of the groups of targets that the task names.
	Tags []TagScore `json:"tags,omitempty"`
}

// TagScore is the accuracy, in percent, of a group of targets.
type TagScore struct {
	Name     string  `json:"name"`
	Accuracy float64 `json:"accuracy"`
	Count    int     `json:"count"`
}

// Better tells whether s is better than other: more targets right or, where numbers are predicted, a lower error.
func (s Score) Better(other Score) bool {
	if s.Accuracy != other.Accuracy {
		return s.Accuracy > other.Accuracy
	}
	return s.Loss < other.Loss
}

// tally sums what a Score is made of.
type tally struct {
	loss, absolute float64
	count, right   int
	tagRight       []int
	tagCount       []int
	out            []float32
}

// add counts the results y of a batch whose loss is the mean over its targets.
func (s *tally) add(b *taskBatch, y *tensor.Tensor, loss float64) {
	s.loss += loss * float64(b.count)
	s.count += b.count
	s.out = append(s.out[:0], make([]float32, y.Len())...)
	y.CopyTo(s.out)
	if b.set.Numbers {
		for i, want := range b.numbers {
			s.absolute += math.Abs(float64(s.out[i] - want))
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

func argmax(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

func (s *tally) score(set *task.Set) Score {
	n := float64(max(1, s.count))
	out := Score{Loss: s.loss / n, Count: s.count}
	if set.Numbers {
		out.MAE = s.absolute / n
		return out
	}
	out.Accuracy = 100 * float64(s.right) / n
	for i, name := range set.Tags {
		if s.tagCount[i] > 0 {
			out.Tags = append(out.Tags, TagScore{name, 100 * float64(s.tagRight[i]) / float64(s.tagCount[i]), s.tagCount[i]})
		}
	}
	return out
}

// evaluator measures networks on the splits of a set.
type evaluator struct {
	set   *task.Set
	tape  *autograd.Tape
	size  int // sequences at a time
	batch taskBatch
	tally tally
}

// score measures a network on the first limit examples of a split (0 for all).
func (e *evaluator) score(ctx context.Context, m *model.Network, split task.Split, limit int) (Score, error) {
	e.batch.set = e.set
	e.tally = tally{tagRight: make([]int, len(e.set.Tags)), tagCount: make([]int, len(e.set.Tags)), out: e.tally.out}
	n := split.Len()
	if limit > 0 {
		n = min(n, limit)
	}
	e.tape.Record(false)
	e.tape.SetPrecision(engine.Float32)
	var indices []int
	for lo := 0; lo < n; lo += e.size {
		if err := ctx.Err(); err != nil {
			return Score{}, err
		}
		indices = indices[:0]
		for i := lo; i < min(n, lo+e.size); i++ {
			indices = append(indices, i)
		}
		if err := e.batch.fill(split, indices); err != nil {
			return Score{}, err
		}
		for _, l := range e.batch.lengths {
			if err := m.Takes(l); err != nil {
				return Score{}, err
			}
		}
		e.tape.Reset()
		y, loss := taskLoss(e.tape, m, &e.batch)
		var value [1]float32
		loss.CopyTo(value[:])
		e.tally.add(&e.batch, y, float64(value[0]))
	}
	return e.tally.score(e.set), nil
}

// taskLoss is what a network makes of a batch, as far as anything is asked, and the loss.
func taskLoss(t *autograd.Tape, m *model.Network, b *taskBatch) (y, loss *tensor.Tensor) {
	y = m.Forward(t, b.in)
	if !b.set.Numbers {
		return y, t.CrossEntropy(y, b.targets)
	}
	if b.set.Everywhere && b.asked*b.n < y.Rows() {
		at, asked := make([]int, b.n), slices.Repeat([]int{b.asked}, b.n)
		for i, l := range b.lengths {
			at[i] = l - b.asked
		}
		y = t.Cut(y, engine.NewRows(b.lengths...), at, asked)
	}
	return y, t.SquaredError(y, b.numbers)
}
