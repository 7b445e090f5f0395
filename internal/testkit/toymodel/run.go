package toymodel

import (
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/tensor"
)

// Trainer updates a model as package train does.
type Trainer struct {
	m     *model.Model
	tape  *autograd.Tape
	grads *autograd.Gradients
	opt   *optim.AdamW
}

// NewTrainer returns a trainer on an engine for a model made by New.
func NewTrainer(t testing.TB, layers string, vocab int, b engine.Backend) *Trainer {
	t.Helper()
	m := New(t, layers, vocab)
	m.Use(b)
	var params []optim.Param
	var leaves []*tensor.Tensor
	m.Params("", func(name string, p *nn.Param) {
		p.SetNeedsGrad(true)
		params = append(params, optim.Param{Name: name, Tensor: p.Tensor, LR: 0.01, Decay: 0.1})
		leaves = append(leaves, p.Tensor)
	})
	x := &Trainer{m: m, tape: m.NewTape(), grads: autograd.NewGradients(b, leaves...),
		opt: optim.NewAdamW(b, params, 0.9, 0.99, 1e-8, 1)}
	x.tape.Collect(x.grads)
	x.tape.Record(true)
	return x
}

// SetPrecision sets the precision of the products in later updates.
func (x *Trainer) SetPrecision(p engine.Precision) { x.tape.SetPrecision(p) }

// Step makes an update for the two halves of ids and returns the loss before it. It copies ids in, and the loss and the
// gradient's norm out.
func (x *Trainer) Step(ids []int32, step int) float64 {
	l := len(ids)/2 - 1
	rows := model.EqualRows(2, l)
	rows.Train(engine.RowSeeds(7, step, 0, 2)...)
	in, targets := make([]int32, 0, 2*l), make([]int32, 0, 2*l)
	for at := 0; at < 2*(l+1); at += l + 1 {
		in, targets = append(in, ids[at:at+l]...), append(targets, ids[at+1:][:l]...)
	}
	loss := x.m.Loss(x.tape, x.m.Forward(x.tape, in, rows), targets)
	value := loss.Value()
	x.tape.Backward(loss)
	x.opt.Step(x.grads.Each(), 1, 1)
	x.tape.Reset()
	return value
}

// Decode reads ids into a state: 40, then 30, then one at a time. After each piece it calls each with the piece's
// bounds. It returns the logits after each piece.
func Decode(m *model.Model, ids []int32, state *model.State, each func(from, to int)) (logits [][]float32) {
	tape := m.NewTape()
	for from, to := 0, 40; from < len(ids); from, to = to, max(70, to+1) {
		tape.Reset()
		rows := model.OneRow(to-from, state)
		logits = append(logits, m.LastLogits(tape, m.Forward(tape, ids[from:to], rows), rows).Floats())
		each(from, to)
	}
	return logits
}

// Saved returns a copy of a state for m, passed through the host as if through a file.
func Saved(t testing.TB, m *model.Model, state *model.State) *model.State {
	t.Helper()
	restored := m.NewState()
	state.Tensors(func(name string, x *tensor.Tensor) {
		if err := restored.Restore(name, x.Shape(), x.Floats()); err != nil {
			t.Fatal(err)
		}
	})
	return restored
}
