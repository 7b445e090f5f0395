package text

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/train"
)

// longGradient returns the mean loss and the gradient of the first update of a run.
func longGradient(t *testing.T, c Config) (float64, [][]float32) {
	t.Helper()
	r := newRun(t, c)
	n, err := r.work.Read(0)
	if err != nil {
		t.Fatal(err)
	}
	loss, count, sum, err := r.loop.Gradient(n)
	if err != nil {
		t.Fatal(err)
	}
	var grads [][]float32
	for _, g := range sum.Each() {
		grads = append(grads, g.Elements())
		for i := range grads[len(grads)-1] {
			grads[len(grads)-1][i] /= float32(count)
		}
	}
	return loss, grads
}

// apart returns the largest difference of two gradients, relative to the largest element of the parameter's gradient.
func apart(a, b [][]float32) (worst float64) {
	for i, x := range a {
		size, far := 0.0, 0.0
		for j, v := range x {
			size, far = max(size, math.Abs(float64(v))), max(far, math.Abs(float64(v-b[i][j])))
		}
		if size > 0 {
			worst = max(worst, far/size)
		}
	}
	return worst
}

// TestExactGradientsOfChunks checks that passing states and their gradients from chunk to chunk gives the gradient of
// the whole sequence, for any chunks, with documents and shards, and that stopping the gradients does not.
func TestExactGradientsOfChunks(t *testing.T) {
	file := jsonl(t, documents(30)...)
	for _, layers := range []string{
		"h3", "mamba", "s4d", "mamba2", "s4,dss,gss", "rg-lru,rnn,lmu", "linear-attention,retention", "gated-conv",
		"mamba(d_state=4)+h3",
	} {
		for _, data := range [][]string{nil, {file}} {
			c := small(t)
			c.Model.AttnIdx, c.Model.Layers = nil, layers
			c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 0, 0, 0
			c.Train.SeqLen, c.Train.BatchSize, c.Train.Shards = 128, 3, 2
			if data != nil {
				c.Data = data
			}
			loss, whole := longGradient(t, c)
			for _, chunk := range []int{32, 50, 127} {
				c.Train.Chunk, c.Train.Gradients = chunk, ""
				mean, got := longGradient(t, c)
				if far := apart(whole, got); far > 1e-5 || math.Abs(loss-mean) > 1e-5 {
					t.Errorf("%s, chunks of %d: loss %v and %v, gradients %.2g apart", layers, chunk, mean, loss, far)
				}
				c.Train.Gradients = gradientsStopped
				mean, got = longGradient(t, c)
				if far := apart(whole, got); far < 1e-3 && data == nil || math.Abs(loss-mean) > 1e-5 {
					t.Errorf("%s, chunks of %d, stopped: loss %v and %v, gradients %.2g apart", layers, chunk, mean,
						loss, far)
				}
			}
		}
	}
}

// TestChunksTakeFlatMemory checks that the tape of an update in chunks holds no more for a sequence eight times as
// long.
func TestChunksTakeFlatMemory(t *testing.T) {
	held := func(l, chunk int) int {
		c := small(t)
		c.Model.AttnIdx, c.Model.Layers, c.Data = nil, "h3,mamba,s4d", nil
		c.Train.SeqLen, c.Train.BatchSize, c.Train.Shards, c.Train.Chunk = l, 1, 1, chunk
		r := newRun(t, c)
		if _, _, err := r.loop.Step(); err != nil {
			t.Fatal(err)
		}
		return r.loop.Tape().Bytes()
	}
	short, long, whole := held(512, 256), held(4096, 256), held(4096, 0)
	if long > short*11/10 || whole < 4*long {
		t.Errorf("the tape holds %d bytes for 512 tokens, %d for 4096, %d of these at once", short, long, whole)
	}
}

// TestTrainInChunks checks that a run in chunks, also with carried states, is resumed to the same weights, and that
// exact gradients require states that they can pass through.
func TestTrainInChunks(t *testing.T) {
	for _, carry := range []bool{false, true} {
		config := func(name string) Config {
			c := small(t)
			c.Model.AttnIdx, c.Model.Layers = nil, "h3,mamba"
			c.Train.Chunk, c.Train.CarryState, c.Train.Shards, c.Train.EvalEvery = 12, carry, 1, 6
			c.Data = []string{name}
			return c
		}
		file := jsonl(t, documents(60)...)
		whole, c := config(file), config(file)
		mustRun(t, whole)
		runUntil(t, c, 3)
		saved, err := ReadRun(c.Out)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Resume(context.Background(), saved, train.Events{}); err != nil {
			t.Fatal(err)
		}
		if weights(t, c.Out) != weights(t, whole.Out) {
			t.Errorf("carry %v: the resumed run has other weights", carry)
		}
	}
	c := small(t)
	c.Train.Chunk = 8
	_, err := Run(context.Background(), c, train.Events{})
	if err == nil || !strings.Contains(fmt.Sprint(err), "layer 1, attention, which has no state of fixed size") {
		t.Errorf("exact gradients through attention: %v", err)
	}
	c.Out += "-2"
	c.Train.Gradients = gradientsStopped
	mustRun(t, c)
}
