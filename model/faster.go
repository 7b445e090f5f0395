package model

import (
	"fmt"
	"time"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
)

// Faster reports whether the middle layer of a model takes less time on a device than on the processor, with weights of
// precision p. It measures decoding one token at a time or, for training, the forward and backward passes over a few
// tokens. told describes the measurement. The weights of the layer are random. A device that fails in the measurement,
// for example because it has too little memory, is not used.
func Faster(c Config, p engine.Precision, on engine.Backend, training bool) (use bool, told string, err error) {
	plan, err := c.Plan()
	if err != nil {
		return false, "", err
	}
	c.Layers, c.VocabSize = plan[len(plan)/2], 64
	var took [2]time.Duration
	for i, b := range []engine.Backend{native.Backend, on} {
		m, err := New(c)
		if err != nil {
			return false, "", err
		}
		if m.Init(1); !training && p != engine.Float32 {
			if err := m.Pack(p); err != nil {
				return false, "", err
			}
		}
		m.Use(b)
		took[i] = layerTime(m, training)
	}
	if err := engine.Failure(on); err != nil {
		return false, fmt.Sprintf("%s: no layer could be measured: %v", OnProcessor, err), nil
	}
	use = took[1] < took[0]
	chosen := map[bool]string{true: "computing on the device", false: OnProcessor}[use]
	return use, fmt.Sprintf("a layer takes %v on the device and %v on the processor: %s",
		took[1].Round(time.Microsecond), took[0].Round(time.Microsecond), chosen), nil
}

// OnProcessor is the part of the text from Faster which says that the device is not used.
const OnProcessor = "computing on the processor"

// layerTime returns the shortest of a few times, after one pass to warm up.
func layerTime(m *Model, training bool) (least time.Duration) {
	const trained, again = 64, 4 // number of tokens, number of passes
	ids := make([]int32, trained)
	t, state := m.NewTape(), m.NewState()
	for i := range 1 + again {
		began := time.Now()
		t.Reset()
		if training {
			t.Record(true)
			rows := EqualRows(1, trained)
			rows.Train(uint64(i))
			t.Backward(m.Loss(t, m.Forward(t, ids, rows), ids))
			t.Grad(m.Embedding.Weight.Tensor).Floats() // waits until all work is done
		} else {
			rows := OneRow(1, state)
			m.LastLogits(t, m.Forward(t, ids[:1], rows), rows).Floats()
		}
		if took := time.Since(began); i == 1 || i > 1 && took < least {
			least = took
		}
	}
	return least
}
