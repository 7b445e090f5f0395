package verify

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/engine/reference"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Certificate is how one sequence is read to be certified: three times, with the state carried along: in chunks and
// position by position on an engine, and by definition in float64. Report gets the largest differences up to position
// 1, 2, 5, 10, ..., Positions, of chunks and of steps. Its error ends the reading.
type Certificate struct {
	Positions int
	Backend   engine.Backend // nil: that of the processor, or of the model
	Scale     float64        // multiplies the tolerance; 0 for 1
	Report    func(Span) error
}

// Span is how far outputs are off, over the positions from From to To of the sequence, counted from 1.
type Span struct {
	Mixer string  `json:"mixer,omitzero"` // of a layer
	Model string  `json:"model,omitzero"` // or the model
	Form  string  `json:"form"`           // chunks, steps
	From  int     `json:"from"`           // the first position
	To    int     `json:"to"`             // the last
	Error float64 `json:"error"`          // the largest, relative to the largest output of the span by definition
	OK    bool    `json:"ok"`             // no more than OutputTol
}

// The width of the layer of a certificate, and the pieces in which a sequence is read: a chunk, and what the reference
// engine, some of whose definitions cost the square of it, takes at a time.
const (
	certificateWidth = 16
	certificateChunk = 512
	definitionChunk  = 32
)

// Mixer certifies a small layer of a recurrent mixer, which reads random numbers.
func (c *Certificate) Mixer(ctx context.Context, info mixer.Info) error {
	m, err := info.New(mixer.Config{DModel: certificateWidth, NLayer: 1, DState: 8, HeadDim: 1, HeadOrder: "dh",
		DtMin: 1e-3, DtMax: 0.1, Measure: "diag-lin", NumHeads: 2})
	if err != nil {
		return fmt.Errorf("%s: %w", info.Name, err)
	}
	nn.InitAll(m, "", 1)
	rng := rand.New(rand.NewPCG(1, 2))
	m.Params("", func(_ string, p *nn.Param) { // away from zeros
		if x := p.Floats(); p.Role == nn.Weight || p.Role == nn.Mixing || p.Role == nn.Bias {
			for i := range x {
				x[i] += float32(0.1 * rng.NormFloat64())
			}
			p.CopyFrom(x)
		}
	})
	var u []float32 // of the piece that begins at start
	start := 0
	form := func(b engine.Backend) reader {
		t, state := autograd.NewTape(b), mixer.Begin(m.NewState())
		return func(at, n int) []float32 {
			defer t.Reset()
			rows := &engine.Rows{}
			rows.Add(n, at)
			x := tensor.FromSlice(u[(at-start)*certificateWidth:][:n*certificateWidth], n, certificateWidth)
			return m.Forward(t, x, &mixer.Rows{Rows: rows, States: state}).Floats()
		}
	}
	b := cmp.Or[engine.Backend](c.Backend, native.Backend)
	return c.certify(ctx, Span{Mixer: info.Name}, form(reference.Backend{}), form(b), form(b), func(at, n int) {
		u, start = make([]float32, n*certificateWidth), at
		for i := range u {
			u[i] = float32(rng.NormFloat64())
		}
	})
}

// Model certifies what all layers of a model make of a text, or of random tokens if ids is nil: the input of the head.
// It has the given name in the report. m must have its weights, must not be packed, and must not be used by others
// meanwhile.
func (c *Certificate) Model(ctx context.Context, name string, m *model.Model, ids []int32) error {
	if most := m.MaxLength(); most > 0 && c.Positions > most {
		return fmt.Errorf("certificate: found %d positions, but the model takes at most %d", c.Positions, most)
	}
	ids, err := (&Options{Tokens: ids}).tokens(m, c.Positions)
	if err != nil {
		return err
	}
	form := func(b engine.Backend) reader {
		t, state := autograd.NewTape(b), m.NewState()
		return func(at, n int) []float32 {
			defer t.Reset()
			return m.Forward(t, ids[at:at+n], model.OneRow(n, state)).Floats()
		}
	}
	b := cmp.Or[engine.Backend](c.Backend, m.Backend())
	return c.certify(ctx, Span{Model: name}, form(reference.Backend{}), form(b), form(b), func(int, int) {})
}

// reader returns what a layer or a model makes of n positions from one on, after those before it.
type reader func(at, n int) []float32

// certify compares the readings of a sequence, in pieces for which next prepares the input.
func (c *Certificate) certify(ctx context.Context, of Span, definition, chunks, steps reader,
	next func(at, n int)) error {
	forms := []struct {
		name  string
		read  reader
		piece int
	}{{"", definition, definitionChunk}, {"chunks", chunks, certificateChunk}, {"steps", steps, 1}}
	gaps := make([]gap, len(forms))
	for at, from := 0, 0; at < c.Positions; {
		n := min(certificateChunk, nextEnd(from)-at, c.Positions-at)
		next(at, n)
		var want []float32
		for f, form := range forms {
			var got []float32
			for i := 0; i < n; i += form.piece {
				if err := ctx.Err(); err != nil {
					return err
				}
				got = append(got, form.read(at+i, min(n-i, form.piece))...)
			}
			if f == 0 {
				want = got
			}
			gaps[f].add(got, want)
		}
		if at += n; at != nextEnd(from) && at != c.Positions {
			continue
		}
		for f, form := range forms[1:] {
			of.Form, of.From, of.To, of.Error = form.name, from+1, at, gaps[f+1].relative(leastScale)
			of.OK = of.Error <= OutputTol*cmp.Or(c.Scale, 1)
			if err := c.Report(of); err != nil {
				return err
			}
		}
		clear(gaps)
		from = at
	}
	return nil
}

// nextEnd is the end of the span that begins after from positions: the next of 1, 2, 5, 10, 20, ...
func nextEnd(from int) int {
	for ten := 1; ; ten *= 10 {
		for _, end := range []int{ten, 2 * ten, 5 * ten} {
			if end > from {
				return end
			}
		}
	}
}
