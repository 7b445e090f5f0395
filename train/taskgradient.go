package train

import (
	"math"
	"slices"
)

// gradient adds the gradients of the micro-batches of an update, each times the number of its targets, and returns
// their mean loss and the number of targets in all. So the gradient divided by count is that of the mean over all
// targets, however the examples are cut. A single micro-batch counts as one: its loss is that mean already.
func (r *taskRunner) gradient(indices []int) (loss, count float64, err error) {
	parts := slices.Collect(slices.Chunk(indices, r.eval.size))
	first := 0 // examples of earlier parts
	for _, part := range parts {
		if err := r.batch.fill(r.set.Train, part); err != nil {
			return 0, 0, err
		}
		r.batch.train(r.c.Seed, r.Step, first)
		first += len(part)
		r.tape.Reset()
		_, out := taskLoss(r.tape, r.m, &r.batch)
		var value [1]float32
		out.CopyTo(value[:])
		if v := float64(value[0]); math.IsNaN(v) || math.IsInf(v, 0) {
			where := firstNonFinite(r.opt, r.tape)
			return 0, 0, &NonFiniteError{Step: r.Step + 1, What: "loss", Value: v, Where: where}
		}
		weight := 1.0
		if len(parts) > 1 {
			weight = float64(r.batch.count)
		}
		r.tape.BackwardFrom(out, []float32{float32(weight)})
		loss, count = loss+weight*float64(value[0]), count+weight
	}
	count = max(1, count) // nothing may be asked for
	return loss / count, count, nil
}
