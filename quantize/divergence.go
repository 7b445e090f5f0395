package quantize

import (
	"context"
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// calibration holds a model's hidden states for a text, and its predictions.
type calibration struct {
	ctx        context.Context
	m          *model.Model
	tape       *autograd.Tape
	progress   func(done, total int)
	candidates []*candidate
	head       tensor.Packed // the head's weights as they were read

	windows []window
	layer   int // layer before which window.stream is
}

// window is a piece of the text.
type window struct {
	ids    []int32
	first  []float32 // residual stream (n, d_model) before the first layer
	stream []float32 // residual stream before calibration.layer
	hidden []float32 // after all layers and the last norm
}

// seen compares a model's predictions with those of the stored model.
type seen struct{ kl, before, after float64 } // means: divergence, and losses before and after

// tokens returns the number of predicted tokens.
func (c *calibration) tokens() (n int) {
	for i := range c.windows {
		n += len(c.windows[i].ids) - 1
	}
	return n
}

// read runs the stored model on a text.
func (c *calibration) read(ids []int32) error {
	length := WindowLen
	if most := c.m.MaxLength(); most > 0 {
		length = min(length, most)
	}
	c.head = c.m.Unembedding().Packed()
	for len(ids) > 1 {
		n := min(length, len(ids))
		if err := c.ctx.Err(); err != nil {
			return err
		}
		w := window{ids: ids[:n]}
		c.tape.Reset()
		r := model.EqualRows(1, n)
		first := c.m.Embed(c.tape, w.ids, r)
		w.first = first.Floats()
		w.stream = w.first
		w.hidden = c.m.Rest(c.tape, 0, first, first, r).Floats()
		c.windows = append(c.windows, w)
		ids = ids[n:]
	}
	return nil
}

// advance computes the residual streams before a layer from those before an earlier one.
func (c *calibration) advance(layer int) error {
	for ; c.layer < min(layer, len(c.m.Blocks)); c.layer++ {
		for i := range c.windows {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			w := &c.windows[i]
			c.tape.Reset()
			r := model.EqualRows(1, len(w.ids))
			w.stream = c.m.Layer(c.tape, c.layer, c.rows(w.stream), c.rows(w.first), r).Floats()
		}
	}
	return nil
}

// rows returns x as a list of vectors of d_model numbers.
func (c *calibration) rows(x []float32) *tensor.Tensor { return rowsOf(c.m, x) }

func rowsOf(m *model.Model, x []float32) *tensor.Tensor {
	d := m.Config.DModel
	return tensor.FromSlice(x, len(x)/d, d)
}

// measure computes the predictions of the model. Its parameters differ from the stored ones only from the given layer
// on.
func (c *calibration) measure(layer int) (seen, error) {
	var total seen
	for i := range c.windows {
		if err := c.ctx.Err(); err != nil {
			return seen{}, err
		}
		s := c.measureWindow(&c.windows[i], layer)
		total.kl, total.before, total.after = total.kl+s.kl, total.before+s.before, total.after+s.after
	}
	n := float64(c.tokens())
	total = seen{total.kl / n, total.before / n, total.after / n}
	if math.IsNaN(total.kl) || math.IsInf(total.kl, 0) {
		return seen{}, fmt.Errorf("found a divergence of %v, want a finite one: the weights are not usable", total.kl)
	}
	return total, nil
}

// logitsAtOnce is the approximate number of logits in memory at a time, for each of two models.
const logitsAtOnce = 1 << 21

// measureWindow is like measure, for one window. It returns sums over the window's tokens.
func (c *calibration) measureWindow(w *window, layer int) (total seen) {
	c.tape.Reset()
	r := model.EqualRows(1, len(w.ids))
	var hidden []float32
	if layer < 0 {
		first := c.m.Embed(c.tape, w.ids, r)
		hidden = c.m.Rest(c.tape, 0, first, first, r).Floats()
	} else {
		hidden = c.m.Rest(c.tape, c.layer, c.rows(w.stream), c.rows(w.first), r).Floats()
	}
	d, vocab, padded := c.m.Config.DModel, c.m.Config.VocabSize, c.m.Config.PaddedVocab()
	size := max(1, logitsAtOnce/padded)
	for at := 0; at+1 < len(w.ids); at += size {
		n := min(size, len(w.ids)-1-at)
		p, q := c.bothLogits(w.hidden[at*d:][:n*d], hidden[at*d:][:n*d])
		each := make([]seen, n)
		parallel.For(n, 1, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				next := int(w.ids[at+i+1])
				each[i] = compare(p[i*padded:][:vocab], q[i*padded:][:vocab], next)
			}
		})
		for _, s := range each {
			total.kl, total.before, total.after = total.kl+s.kl, total.before+s.before, total.after+s.after
		}
	}
	return total
}

// bothLogits returns the logits for hidden states of the stored model, from its head, and of the current one.
func (c *calibration) bothLogits(stored, now []float32) (p, q []float32) {
	head := c.m.Unembedding()
	present := head.Packed()
	head.SetPacked(c.head)
	c.tape.Reset()
	p = c.m.Logits(c.tape, c.rows(stored)).Floats()
	head.SetPacked(present)
	c.tape.Reset()
	return p, c.m.Logits(c.tape, c.rows(now)).Floats()
}

// compare returns the divergence of the distribution of logits q from that of p, Σ p (log p - log q), and the losses of
// both for the next token.
func compare(p, q []float32, next int) seen {
	topP, topQ := math.Inf(-1), math.Inf(-1)
	for i := range p {
		topP, topQ = max(topP, float64(p[i])), max(topQ, float64(q[i]))
	}
	var sumP, sumQ, off float64
	for i := range p {
		e := math.Exp(float64(p[i]) - topP)
		sumP += e
		sumQ += math.Exp(float64(q[i]) - topQ)
		off += e * (float64(p[i]) - float64(q[i]))
	}
	logP, logQ := topP+math.Log(sumP), topQ+math.Log(sumQ)
	return seen{kl: off/sumP - logP + logQ, before: logP - float64(p[next]), after: logQ - float64(q[next])}
}
