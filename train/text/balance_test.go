package text

import (
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/train"
)

// TestExpertsAreBalanced checks that updates of a model with experts also follow the gradient of the balancing loss,
// for any number of shards, and that the reported loss is the cross-entropy alone.
func TestExpertsAreBalanced(t *testing.T) {
	step := func(mlp string, shards int) (loss float64, router []float32) {
		c := small(t)
		c.Model.MLP = mlp
		c.Train.BatchSize, c.Train.Shards = c.Train.sequences()/shards, shards
		r := newRun(t, c)
		loss, _, err := r.loop.Step()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range r.work.Model.Tensors() {
			if x.Name == "backbone.layers.0.mlp.router.weight" {
				if router, err = x.Float32(); err != nil {
					t.Fatal(err)
				}
			}
		}
		return loss, router
	}
	const experts, balanced = "swiglu-experts(experts=4)", "swiglu-experts(experts=4,balance=1)"
	for _, shards := range []int{1, 2} {
		loss, plain := step(experts, shards)
		same, router := step(balanced, shards)
		moved := 0
		for i := range router {
			if router[i] != plain[i] {
				moved++
			}
		}
		if loss != same || moved < len(router)/2 {
			t.Errorf("%d shards: the loss is %v and with balance %v, and %d of %d weights of the router go elsewhere",
				shards, loss, same, moved, len(router))
		}
	}
	tape := autograd.NewTape(cpu.Backend{})
	train.ForUpdates(tape, 0)
	taken := tape.TakesAside()
	if train.ForMeasuring(tape); !taken || tape.TakesAside() {
		t.Errorf("updates balance experts: %v, measurements: %v", taken, tape.TakesAside())
	}
}
