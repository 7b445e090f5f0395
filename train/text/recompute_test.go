package text

import (
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/tensor"
)

// TestRecomputedGradients checks that gradients with recomputed layers have the same bits as without, with dropout,
// documents, shards and frozen layers, and that the tape holds much less.
func TestRecomputedGradients(t *testing.T) {
	file := jsonl(t, documents(30)...)
	for _, layers := range []string{"h3,attention,mamba,s4d", "mamba2/none,hyena(l_max=64),gau", "h3*3",
		"mamba,rwkv7/channel-mix*3"} {
		for _, freeze := range [][]string{nil, {"backbone.embeddings", "backbone.layers.0"}} {
			c := small(t)
			c.Model.AttnIdx, c.Model.Layers, c.Data, c.Freeze = nil, layers, []string{file}, freeze
			c.Train.SeqLen, c.Train.BatchSize, c.Train.Shards = 64, 3, 2
			loss, whole := longGradient(t, c)
			c.Train.Recompute = true
			mean, again := longGradient(t, c)
			if mean != loss {
				t.Errorf("%s: loss %v, at once %v", layers, mean, loss)
			}
			for i, g := range whole {
				if !slices.Equal(g, again[i]) {
					t.Errorf("%s, frozen %v: gradient %d differs: %.2g apart", layers, freeze, i,
						apart([][]float32{g}, [][]float32{again[i]}))
				}
			}
		}
	}
	held := func(again bool) int {
		c := small(t)
		c.Model.AttnIdx, c.Model.Layers, c.Train.SeqLen, c.Train.Recompute = nil, "h3*8", 256, again
		r := newRun(t, c)
		if _, _, err := r.loop.Step(); err != nil {
			t.Fatal(err)
		}
		return r.loop.Tape().Bytes()
	}
	if at, once := held(true), held(false); at > once/3 {
		t.Errorf("the tape holds %d bytes, at once %d", at, once)
	}
}

// TestMemoryOfRecomputing checks that the estimated memory of a run with recomputation is that of its tape and streams,
// and that it does not grow from update to update. The last window of a measurement is shorter than the sequences of
// the estimate, and leaves buffers of other sizes.
func TestMemoryOfRecomputing(t *testing.T) {
	c := small(t)
	c.Model.AttnIdx, c.Model.NLayer, c.Model.DModel, c.Model.VocabSize = nil, 0, 64, 2000
	c.Model.Layers = "gated-deltanet*3,attention,mamba*2"
	c.Train.SeqLen, c.Train.BatchSize, c.Train.Recompute = 512, 1, true
	run, err := c.probes(c.Model)
	if err != nil {
		t.Fatal(err)
	}
	want, err := run.activations()
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, c)
	if _, err := r.work.Measure(t.Context(), r.loop.Tape(), false); err != nil {
		t.Fatal(err)
	}
	last := 0
	for step := range 3 {
		if _, _, err := r.loop.Step(); err != nil {
			t.Fatal(err)
		}
		kept := &r.work.copies
		got := r.loop.Tape().Bytes()
		for _, x := range append([]*tensor.Tensor{kept.dr, kept.dh, kept.dv}, kept.streams...) {
			if x != nil {
				got += x.Bytes()
			}
		}
		if ratio := float64(want) / float64(got); ratio < 0.9 || ratio > 1.1 || step > 0 && got > last {
			t.Errorf("after %d updates %d bytes, before %d, estimated %d", step+1, got, last, want)
		}
		last = got
	}
}
