package model

import (
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
)

// TestPackedDocuments checks that documents as rows of one call have the same logits as alone, bit by bit. Loss and
// gradients are means over the targets of all documents. Some positions have no target.
func TestPackedDocuments(t *testing.T) {
	lengths := []int{25, 1, 40, 6}
	for _, layers := range []string{every(), composed, mixtures, handing} {
		m := hybrid(t, layers)
		total := 0
		for _, n := range lengths {
			total += n
		}
		ids, targets := text(5, total), text(6, total)
		for i := range targets {
			if i%3 == 1 {
				targets[i] = engine.Ignore
			}
		}
		v := m.Config.PaddedVocab()
		run := func(lo, hi int, lengths ...int) (logits []float32, loss float64, grads map[string][]float32) {
			tape, rows := autograd.NewTape(cpu.Backend{}), &Rows{}
			tape.Record(true)
			for _, n := range lengths {
				rows.Add(n, nil)
			}
			hidden := m.Forward(tape, ids[lo:hi], rows)
			logits = read(m.Logits(tape, hidden))
			mean := m.Loss(tape, hidden, targets[lo:hi])
			loss = float64(read(mean)[0])
			tape.Backward(mean)
			return logits, loss, gradients(tape, m)
		}
		counted := func(lo, hi int) (n float64) {
			for _, id := range targets[lo:hi] {
				if id != engine.Ignore {
					n++
				}
			}
			return n
		}
		logits, loss, grads := run(0, total, lengths...)
		sum, losses, lo := map[string][]float32{}, 0.0, 0
		for i, n := range lengths {
			one, mean, g := run(lo, lo+n, n)
			if !slices.Equal(one, logits[lo*v:][:n*v]) {
				t.Errorf("%.30s: document %d has other logits alone", layers, i)
			}
			share := counted(lo, lo+n) / counted(0, total)
			losses += mean * share
			for name, x := range g {
				if sum[name] == nil {
					sum[name] = make([]float32, len(x))
				}
				for j, d := range x {
					sum[name][j] += d * float32(share)
				}
			}
			lo += n
		}
		if math.Abs(loss-losses) > 1e-6*loss {
			t.Errorf("%.30s: loss %v, the mean of each is %v", layers, loss, losses)
		}
		for name, g := range grads {
			if sum[name] == nil {
				sum[name] = make([]float32, len(g))
			}
			near(t, "gradient of "+name, g, sum[name], 1e-4)
		}
	}
}
