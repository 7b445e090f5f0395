//go:build gpu

package gpu

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestPageHasTheEstimate checks that the table of docs/gpu.md is what the engine counts for a step of published models,
// and the time that an H200 would need for it according to its data sheet.
func TestPageHasTheEstimate(t *testing.T) {
	var table strings.Builder
	for _, preset := range []string{"h3-125m", "mamba-130m"} {
		for _, p := range []engine.Precision{engine.Float32, engine.BF16} {
			for _, batch := range []int{1, 64} {
				estimateRow(&table, preset, fmt.Sprintf("a token for %d", batch), p, batch,
					decoded(t, preset, p, batch, 1))
			}
			const batch, length = 8, 1024
			estimateRow(&table, preset, fmt.Sprintf("a prompt of %d × %d", batch, length), p, batch*length,
				decoded(t, preset, p, batch, length))
			estimateRow(&table, preset, fmt.Sprintf("an update of %d × %d", batch, length), p, batch*length,
				trained(t, preset, p, batch, length))
		}
	}
	page, err := os.ReadFile("../../docs/gpu.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/gpu.md has not the table\n%s", table.String())
	}
}

func estimateRow(table *strings.Builder, preset, work string, p engine.Precision, tokens int, c Counts) {
	launches, peak := float64(c.Launches)*H200.Launch, H200.Flops
	if p == engine.BF16 {
		peak = H200.Matrices
	}
	fmt.Fprintf(table, "| %s | %s | %v | %d | %.3g | %.3g | %.3g | %.3g | %.0f %% | %.0f %% | %.2g %% | %.3g |\n",
		preset, work, p, c.Launches, c.Bytes/1e9, c.Flops/1e9, float64(c.Memory)/1e9, c.Seconds*1e3,
		100*launches/c.Seconds, 100*c.Bytes/H200.Bandwidth/c.Seconds, 100*c.Flops/peak/c.Seconds,
		float64(tokens)/c.Seconds)
}

// rounded is a packed matrix of bfloat16 numbers without values.
type rounded struct{ n, k int }

func (w rounded) Len() int                                         { return w.n * w.k }
func (w rounded) Bytes() int                                       { return 2 * w.Len() }
func (rounded) Stored() engine.Precision                           { return engine.BF16 }
func (rounded) Exact() bool                                        { return false }
func (rounded) ReadRow([]float32, int)                             {}
func (rounded) ReadGroups(int, []int8, []uint16, []uint16) float32 { return 0 }
func (rounded) Sums() []byte                                       { return nil }

// estimated returns a model of a preset whose weights are packed at a precision and have no values, and the backend
// that counts its work.
func estimated(t *testing.T, preset string, p engine.Precision) (*model.Model, *Backend) {
	t.Helper()
	c, err := model.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	c.VocabSize = max(c.VocabSize, vocab)
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Params("", func(_ string, w *nn.Param) {
		if p == engine.BF16 && (w.Role == nn.Weight || w.Role == nn.Table) {
			w.SetPacked(rounded{w.Dim(0), w.Dim(1)})
		}
	})
	b := Estimate(H200)
	m.Use(b)
	return m, b
}

// decoded counts the third of three equal steps, of `tokens` tokens for `batch` sequences. The second step still copies
// tables in.
func decoded(t *testing.T, preset string, p engine.Precision, batch, tokens int) Counts {
	m, b := estimated(t, preset, p)
	tape := m.NewTape()
	states := make([]*model.State, batch)
	for i := range states {
		states[i] = m.NewState()
	}
	var before Counts
	for range 3 {
		before = b.Counts()
		tape.Reset()
		rows := &model.Rows{}
		for _, s := range states {
			rows.Add(tokens, s)
		}
		m.LastLogits(tape, m.Forward(tape, make([]int32, batch*tokens), rows), rows).Floats()
	}
	return b.Counts().since(before)
}

// trained counts the second update with a batch of sequences.
func trained(t *testing.T, preset string, p engine.Precision, batch, length int) Counts {
	m, b := estimated(t, preset, engine.Float32)
	var params []optim.Param
	var leaves []*tensor.Tensor
	m.Params("", func(name string, p *nn.Param) {
		params, leaves = append(params, optim.Param{Name: name, Tensor: p.Tensor}), append(leaves, p.Tensor)
	})
	tape, grads := m.NewTape(), autograd.NewGradients(b, leaves...)
	opt := optim.NewAdamW(b, params, 0.9, 0.99, 1e-8, 1)
	tape.Collect(grads)
	tape.Record(true)
	tape.SetPrecision(p)
	ids := make([]int32, batch*length)
	var before Counts
	for step := range 2 {
		before = b.Counts()
		rows := model.EqualRows(batch, length)
		rows.Train(engine.RowSeeds(7, step, 0, batch)...)
		loss := m.Loss(tape, m.Forward(tape, ids, rows), ids)
		loss.Value()
		tape.Backward(loss)
		opt.Step(grads.Each(), 1, 1)
		tape.Reset()
	}
	return b.Counts().since(before)
}

// TestUpdateCopies checks that an update of a model with diagonal systems copies only ids in, and only the loss and the
// norm of the gradient out.
func TestUpdateCopies(t *testing.T) {
	for _, preset := range []string{"h3-tiny", "s4d-tiny", "dss-tiny", "gss-tiny"} {
		c := trained(t, preset, engine.Float32, 2, 64)
		if want := 4 * 2 * 64; c.In > 0 || c.Out != 2 || c.IDs != want || c.Tables > 0 {
			t.Errorf("%s: %d numbers in, %d out, %d of ids, %d of tables, want 0, 2, %d and 0", preset, c.In, c.Out,
				c.IDs, c.Tables, want)
		}
	}
}
