package explain

import (
	"context"
	"errors"
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// gradient finds gradient times input, Σ_i x_i[s] ∂ log p/∂x_i[s] for the stream x that the first layer is given: by
// the backward of the model itself, with nothing held fixed. Meanwhile the model's parameters want no gradients: nobody
// else may train it.
func (g *Language) gradient(ctx context.Context, ids []int32, r *Influence) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, b := range g.backbone.Blocks {
		if b.Shared != nil {
			return fmt.Errorf("gradient: layer %d has a block that layers share, which reads the input apart from the "+
				"stream; want a model without", i)
		}
	}
	thaw, err := g.freeze()
	if err != nil {
		return err
	}
	defer thaw()
	t := autograd.NewTape()
	defer t.Reset()
	t.Record(true)
	first, last := &endNorm{leaf: true}, &endNorm{}
	blocks := []*model.Block{{Norm1: first, Mixer: nothing{}}}
	blocks = append(blocks, g.backbone.Blocks...)
	blocks = append(blocks, &model.Block{Norm1: last, Mixer: nothing{}})
	g.forward(t, blocks, ids)
	_, hidden := g.backbone.LnF.AddForward(t, last.stream, nil)
	scores := g.head(t, t.Slice(hidden, r.Token, 1))
	if r.Next = r.Options.Next; r.Next == LikeliestToken {
		r.Next = 0
		all := floats(scores)
		for i, v := range all[:g.vocab] {
			if v > all[r.Next] {
				r.Next = int32(i)
			}
		}
	}
	loss := t.CrossEntropy(scores, []int32{r.Next})
	r.LogProb = -float64(floats(loss)[0])
	t.Backward(loss)
	x := floats(first.stream)
	d := len(x) / len(ids)
	dx := make([]float32, len(x))
	t.Grad(first.stream, dx)
	if !finite(dx) {
		return errors.New("gradient: found one that is not finite, want weights without NaN and infinities")
	}
	r.Gradient = make([]float64, len(ids))
	for i, v := range dx {
		r.Gradient[i/d] -= float64(v) * float64(x[i])
	}
	return nil
}

// freeze lets no parameter want a gradient until thaw is called.
func (g *Language) freeze() (thaw func(), err error) {
	var m nn.Module = g.network
	if g.language != nil {
		m = g.language
	}
	var params []*nn.Param
	m.Params("", func(name string, p *nn.Param) {
		if p.Packed() != nil && err == nil {
			err = fmt.Errorf("gradient: found %s in a form for inference alone, want weights of float32", name)
		}
		if p.NeedsGrad() {
			params = append(params, p)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, p := range params {
		p.SetNeedsGrad(false)
	}
	return func() {
		for _, p := range params {
			p.SetNeedsGrad(true)
		}
	}, nil
}

// endNorm stands at an end of the blocks and keeps the stream there, as a leaf whose gradient is wanted if leaf is set.
type endNorm struct {
	leaf   bool
	stream *tensor.Tensor
}

func (m *endNorm) Params(string, nn.Visitor) {}

func (m *endNorm) AddForward(t *autograd.Tape, x, r *tensor.Tensor) (s, y *tensor.Tensor) {
	if r != nil {
		x = t.Add(x, r)
	}
	if m.leaf {
		x = tensor.FromSlice(floats(x), x.Shape()...)
		x.SetNeedsGrad(true)
	}
	m.stream = x
	return x, x
}

// nothing is a mixer that adds nothing.
type nothing struct{}

func (nothing) Params(string, nn.Visitor) {}
func (nothing) NewState() mixer.State     { return nil }
func (nothing) Traits() mixer.Traits      { return mixer.Traits{} }
func (nothing) Forward(t *autograd.Tape, u *tensor.Tensor, _ *mixer.Rows) *tensor.Tensor {
	return t.Scale(u, 0)
}
