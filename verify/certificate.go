package verify

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/engine/reference"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Span is how far outputs of a layer are off, over the positions from From to To of one sequence, counted from 1.
type Span struct {
	Mixer string  `json:"mixer"`
	Form  string  `json:"form"`  // chunks, steps
	From  int     `json:"from"`  // the first position
	To    int     `json:"to"`    // the last
	Error float64 `json:"error"` // the largest, relative to the largest output of the span by definition
	OK    bool    `json:"ok"`    // no more than OutputTol
}

// The sizes of the layer of a certificate, and the pieces in which it is read: a chunk, and what the reference engine,
// some of whose definitions cost the square of it, takes at a time.
const (
	certificateWidth = 16
	certificateChunk = 512
	definitionChunk  = 32
)

// Certify reads one sequence of random numbers with a layer of a recurrent mixer, three times with the state carried
// along: in chunks and position by position on the engine of this machine, and by definition in float64. report gets
// the largest differences up to position 1, 2, 5, 10, ..., n, of chunks and of steps; its error ends the reading.
func Certify(ctx context.Context, info mixer.Info, n int, report func(Span) error) error {
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
	forms := []*reading{
		newReading(m, reference.Backend{}, definitionChunk), newReading(m, native.Backend, certificateChunk),
		newReading(m, native.Backend, 1),
	}
	var gaps [2]gap
	for at, from := 0, 0; at < n; {
		if err := ctx.Err(); err != nil {
			return err
		}
		l := min(certificateChunk, nextEnd(from)-at, n-at)
		u := make([]float32, l*certificateWidth)
		for i := range u {
			u[i] = float32(rng.NormFloat64())
		}
		want := forms[0].read(u, at)
		for f, form := range forms[1:] {
			gaps[f].add(form.read(u, at), want)
		}
		if at += l; at == nextEnd(from) || at == n {
			for f, name := range []string{"chunks", "steps"} {
				e := gaps[f].relative(leastScale)
				if err := report(Span{info.Name, name, from + 1, at, e, e <= OutputTol}); err != nil {
					return err
				}
			}
			gaps, from = [2]gap{}, at
		}
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

// reading is a layer that reads a sequence piece by piece.
type reading struct {
	m     mixer.Mixer
	t     *autograd.Tape
	state []mixer.State
	piece int
}

func newReading(m mixer.Mixer, b engine.Backend, piece int) *reading {
	return &reading{m, autograd.NewTape(b), mixer.Begin(m.NewState()), piece}
}

// read returns what the layer makes of u, which starts at a position.
func (r *reading) read(u []float32, start int) (y []float32) {
	for at := 0; at < len(u); {
		n := min(len(u)-at, r.piece*certificateWidth)
		rows := &engine.Rows{}
		rows.Add(n/certificateWidth, start+at/certificateWidth)
		x := tensor.FromSlice(u[at:at+n], n/certificateWidth, certificateWidth)
		y = append(y, r.m.Forward(r.t, x, &mixer.Rows{Rows: rows, States: r.state}).Floats()...)
		r.t.Reset()
		at += n
	}
	return y
}
