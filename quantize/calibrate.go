package quantize

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Options specifies how Calibrate chooses.
type Options struct {
	// Bits is the maximum average number of bits of a matrix element (see Bits). Matrices with nn.Param.Fine have at
	// least 8, and their extra bits are added to the budget. Bits is not used if MaxKL is above 0.
	Bits float64
	// MaxKL is the maximum divergence of the quantized model's predictions, in nats per token; 0 for no limit.
	MaxKL float64

	Progress func(done, total int) // counts passes over the text
}

// WindowLen is the number of tokens of a window. Each window starts from an empty state.
const WindowLen = 512

// leastTokens is the minimum for a useful measurement.
const leastTokens = 64

// candidate is a matrix whose precision is to be chosen.
type candidate struct {
	name    string
	param   *nn.Param
	layer   int
	stored  tensor.Packed // the matrix as it was read
	options []option
}

// Calibrate rounds the matrices of a model that model.LoadStored loaded. It chooses the precision of each matrix by how
// much rounding the matrix changes the model's predictions for the tokens of a text. The measure is the mean
// Kullback-Leibler divergence of the next token's distribution if only this matrix is rounded: to 4 bits (symmetric, or
// with a minimum), 8 and 16. Calibrate needs the memory of the stored model, of the chosen forms, and of a few rows of
// d_model numbers for each token.
func Calibrate(ctx context.Context, m *model.Model, ids []int32, o Options) (*Report, error) {
	if len(ids) < leastTokens {
		return nil, fmt.Errorf("found %d tokens to calibrate with, want %d or more", len(ids), leastTokens)
	}
	c := &calibration{ctx: ctx, m: m, tape: m.NewTape(), progress: o.Progress}
	if err := c.find(); err != nil {
		return nil, err
	}
	if err := c.read(ids); err != nil {
		return nil, err
	}
	if err := c.measureAll(); err != nil {
		return nil, err
	}
	seen, err := c.settle(o)
	if err != nil {
		return nil, err
	}
	r := Describe(m)
	costs := map[string]map[string]float64{}
	for _, x := range c.candidates {
		costs[x.name] = map[string]float64{}
		for _, way := range x.options {
			costs[x.name][kinds[way.kind].String()] = way.cost
		}
	}
	for i := range r.Matrices {
		r.Matrices[i].KL = costs[r.Matrices[i].Name]
	}
	r.Calibration = &Calibration{Tokens: c.tokens(), KL: seen.kl, Before: math.Exp(seen.before),
		After: math.Exp(seen.after)}
	return r, nil
}

// find collects the matrices.
func (c *calibration) find() (err error) {
	c.m.Params("", func(name string, p *nn.Param) {
		switch w, ok := p.Packed().(engine.Rounding); {
		case !ok:
		case w.Stored() >= engine.Int8:
			err = fmt.Errorf("%s: found weights of %s, want those of a model that is not quantized", name, w.Stored())
		default:
			x := &candidate{name: name, param: p, layer: layerOf(c.m, name, p), stored: w}
			c.candidates = append(c.candidates, x)
		}
	})
	if err == nil && len(c.candidates) == 0 {
		err = errors.New("found no packed matrices, want a model as it was stored")
	}
	byLayer(c.candidates)
	return err
}

// rounded returns the matrix rounded to a precision.
func (x *candidate) rounded(b engine.Packing, p engine.Precision) tensor.Packed {
	from := x.stored.(engine.Rounding)
	if p == engine.BF16 && from.Stored() == engine.BF16 {
		return x.stored
	}
	n, k := x.param.Dim(0), x.param.Dim(1)
	matrix := engine.Matrix{N: n, K: k, Rows: func(j, rows int, use func([]float32)) {
		values := make([]float32, rows*k)
		for i := range rows {
			from.ReadRow(values[i*k:][:k], j+i)
		}
		use(values)
	}}
	as := engine.PackRounded
	if p == engine.BF16 {
		as = engine.PackExact
	}
	return b.Pack(p, as, matrix)[0]
}

// measureAll measures the cost of each form of each matrix.
func (c *calibration) measureAll() error {
	done, total := 0, len(c.candidates)*len(kinds)
	for _, x := range c.candidates {
		if err := c.advance(x.layer); err != nil {
			return err
		}
		for kind, p := range kinds {
			way := option{kind: kind, size: Bits(p) * float64(x.param.Len())}
			if form := x.rounded(c.m.Backend(), p); form != x.stored {
				x.param.SetPacked(form)
				seen, err := c.measure(x.layer)
				x.param.SetPacked(x.stored)
				if err != nil {
					return err
				}
				way.cost = max(0, seen.kl)
			}
			x.options = append(x.options, way)
			done++
			if c.progress != nil {
				c.progress(done, total)
			}
		}
	}
	return nil
}

// mostTries is the maximum number of choices measured to find one within MaxKL.
const mostTries = 8

// settle chooses a precision for each matrix, rounds all of them, and measures the resulting model.
func (c *calibration) settle(o Options) (seen, error) {
	if o.MaxKL <= 0 {
		return c.take(choose(c.options(), c.budget(o.Bits), func(float64) bool { return false }))
	}
	// Divergences are only approximately additive, so the result is measured.
	for aim, tries := o.MaxKL, 0; ; tries++ {
		s, err := c.take(choose(c.options(), math.Inf(1), func(cost float64) bool { return cost <= aim }))
		if err != nil || s.kl <= o.MaxKL {
			return s, err
		}
		if tries == mostTries {
			return s, fmt.Errorf("max_kl: found a divergence of %.3g with the best of %d choices, want at most %g",
				s.kl, tries+1, o.MaxKL)
		}
		aim *= min(0.9, 0.9*o.MaxKL/s.kl)
	}
}

func (c *calibration) options() (all [][]option) {
	for _, x := range c.candidates {
		all = append(all, x.options)
	}
	return all
}

// budget returns the size of all matrices at an average number of bits.
func (c *calibration) budget(bits float64) (size float64) {
	for _, x := range c.candidates {
		each := bits
		if x.param.Fine {
			each = max(each, Bits(engine.Int8))
		}
		size += each * float64(x.param.Len())
	}
	return size
}

// take rounds the matrices to the chosen precisions, and measures the model.
func (c *calibration) take(chosen []int) (seen, error) {
	for i, x := range c.candidates {
		x.param.SetPacked(x.rounded(c.m.Backend(), kinds[chosen[i]]))
	}
	return c.measure(-1)
}
