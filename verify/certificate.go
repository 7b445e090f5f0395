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

// Certificate compares three readings of one sequence that carry the state along: in chunks and position by position on
// an engine, and by definition in float64. Report receives the largest differences up to position 1, 2, 5, 10, ...,
// Positions, for chunks and for steps. If it returns an error, the reading ends.
type Certificate struct {
	Positions int
	Backend   engine.Backend // nil for that of the processor or of the model
	Scale     float64        // multiplies the tolerance; 0 for 1
	Report    func(Span) error
}

// Span reports the error of outputs over the positions From to To of the sequence, counted from 1.
type Span struct {
	Mixer string  `json:"mixer,omitzero"` // name of the mixer, if a layer is certified
	Model string  `json:"model,omitzero"` // name of the model, if a model is certified
	Form  string  `json:"form"`           // chunks, steps
	From  int     `json:"from"`           // the first position
	To    int     `json:"to"`             // the last
	Error float64 `json:"error"`          // largest difference, relative to the span's largest output by definition
	OK    bool    `json:"ok"`             // Error is at most OutputTol times Scale
}

// The width of a certificate's layer, and the lengths of pieces: a chunk, and the piece that the reference engine reads
// at a time, since the cost of some of its definitions is quadratic in the length.
const (
	certificateWidth = 16
	certificateChunk = 512
	definitionChunk  = 32
)

// Mixer certifies a small layer of a recurrent mixer on random input.
func (c *Certificate) Mixer(ctx context.Context, info mixer.Info) error {
	m, err := info.New(mixer.Config{DModel: certificateWidth, NLayer: 1, DState: 8, HeadDim: 1, HeadOrder: "dh",
		DtMin: 1e-3, DtMax: 0.1, Measure: "diag-lin", NumHeads: 2})
	if err != nil {
		return fmt.Errorf("%s: %w", info.Name, err)
	}
	nn.InitAll(m, "", 1)
	rng := rand.New(rand.NewPCG(1, 2))
	m.Params("", func(_ string, p *nn.Param) { // so that no parameter is zero
		if x := p.Floats(); p.Role == nn.Weight || p.Role == nn.Mixing || p.Role == nn.Bias {
			for i := range x {
				x[i] += float32(0.1 * rng.NormFloat64())
			}
			p.CopyFrom(x)
		}
	})
	var u []float32 // input of the piece that starts at start
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

// Model certifies the layers of a model: the input of its head for a text, or for random tokens if ids is nil. name is
// the model's name in the report. m must have its weights, must not be packed, and must not be used concurrently.
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

// reader returns the output of a layer or a model for n positions, starting at position at. It must be called in order.
type reader func(at, n int) []float32

// certify compares the readings of a sequence, in pieces whose input next prepares.
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

// nextEnd returns the end of the span that starts after from positions: the next of 1, 2, 5, 10, 20, ...
func nextEnd(from int) int {
	for ten := 1; ; ten *= 10 {
		for _, end := range []int{ten, 2 * ten, 5 * ten} {
			if end > from {
				return end
			}
		}
	}
}
