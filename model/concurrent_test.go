package model

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestStepsAtOnce checks that goroutines that run forward and backward passes of one model concurrently, each with its
// own tape and gradients, get the same bits as alone. It is most useful with -race.
func TestStepsAtOnce(t *testing.T) {
	const b, l, goroutines = 2, 40, 3
	m := hybrid(t, every())
	m.Config.EmbedDropout, m.Config.ResidDropout = 0.1, 0.1
	var leaves []*tensor.Tensor
	m.Params("", func(_ string, p *nn.Param) { leaves = append(leaves, p.Tensor) })
	step := func(i int, collect bool) (loss []float32, grads map[string][]float32) {
		tape := autograd.NewTape(cpu.Backend{})
		if collect {
			tape.Collect(autograd.NewGradients(tape.Backend(), leaves...))
		}
		tape.Record(true)
		for pass := range uint64(2) { // the second pass adds to the gradients
			tape.Reset()
			ids := text(uint64(i), b*l)
			rows := EqualRows(b, l)
			rows.Train(engine.RowSeeds(uint64(i), int(pass), 0, b)...)
			mean := m.Loss(tape, m.Forward(tape, ids, rows), ids)
			loss = append(loss, read(mean)...)
			tape.Backward(mean)
		}
		return loss, gradients(tape, m)
	}
	for _, collect := range []bool{false, true} {
		var wait sync.WaitGroup
		var losses [goroutines][]float32
		var grads [goroutines]map[string][]float32
		for i := range goroutines {
			wait.Go(func() { losses[i], grads[i] = step(i, collect) })
		}
		wait.Wait()
		for i := range goroutines {
			loss, want := step(i, collect)
			if !slices.Equal(loss, losses[i]) {
				t.Errorf("step %d has the losses %v beside others, %v alone", i, losses[i], loss)
			}
			if !maps.EqualFunc(grads[i], want, slices.Equal) {
				t.Errorf("step %d has other gradients beside others than alone", i)
			}
		}
	}
}
