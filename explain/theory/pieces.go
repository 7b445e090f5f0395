package theory

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var piecesView = View{
	Name:  "pieces",
	Short: "A long convolution piece by piece: FFTs inside, a state passed on between",
	Long: `Shows how a signal that is too long for one transform goes through a diagonal SSM piece by piece, as in
FlashConv (H3, arXiv:2212.14052, §4): the output of a piece is

  own    the convolution of the piece with the kernel, by FFT
  past   2 Re Σ_i C_i Abar_iᵏ⁺¹ x_i, the response to the state x that the pieces before it have left

and the sum of both is the output of the whole. Nothing else passes from piece to piece, whatever the length.`,
	Example: `  hippo explain ssm pieces
  hippo explain ssm pieces --piece 32 --init legs --n 16
  hippo explain ssm pieces --signal recording.wav --length 4096 --piece 512`,
	New: func() Options {
		return &PiecesOptions{
			SignalOptions: SignalOptions{Signal: "square", Length: 256, Turns: 2.5, Seed: 1},
			Init:          "lin", N: 8, Dt: 0.05, Piece: 64,
		}
	},
}

// PiecesOptions holds the options of the view pieces.
type PiecesOptions struct {
	SignalOptions
	Init  string  `json:"init" enum:"lin,inv,inv2,quad,real,legs" help:"the initialization of A"`
	N     int     `json:"n" min:"2" max:"64" help:"numbers in the state, even"`
	Dt    float64 `json:"dt" min:"0.00001" max:"10" help:"time from one sample to the next"`
	Piece int     `json:"piece" min:"1" max:"4096" help:"samples in a piece"`
}

// Page returns the page with the pieces in sequence.
func (o *PiecesOptions) Page(context.Context) (*figure.Page, error) {
	s, err := o.take()
	if err != nil {
		return nil, err
	}
	d := DiagonalOptions{Init: o.Init, N: o.N, Dt: o.Dt, Method: "bilinear"}
	m, method, err := d.model()
	if err != nil {
		return nil, err
	}
	l := len(s.u)
	if count := (l + o.Piece - 1) / o.Piece; count > mostPoints {
		return nil, fmt.Errorf("piece: found %d samples, which makes %d pieces of the signal, want at most %d", o.Piece,
			count, mostPoints)
	}
	own, past, states := m.ScanPieces(method, s.u, o.Piece)
	whole := m.Scan(method, nil, s.u)
	sum := floats.AddTo(make([]float64, l), own, past)
	apart := floats.Distance(sum, whole, math.Inf(1))

	f := &figure.Figure{Name: "pieces", Title: "Piece by piece", Source: "H3, arXiv:2212.14052, §4.2", Columns: 1,
		Caption: "Each frame adds a piece: its own convolution, the response to the state that was passed on, " +
			"and their sum. " +
			fmt.Sprintf("Sum and recurrence over the whole signal differ by at most %.1e.", apart)}
	lo, hi := bounds(own, past, whole, s.u)
	var all [][]float64
	for _, x := range states {
		all = append(all, ssm.ReIm(x))
	}
	least, most := bounds(all...)
	var borders []float64
	for from := o.Piece; from < l; from += o.Piece {
		borders = append(borders, float64(from))
	}
	for i, x := range states {
		to := min(l, (i+1)*o.Piece)
		at := evenly(to, mostPoints)
		outputs := lines("outputs", "sample", "", picked("own", own, at), picked("past", past, at),
			dashed(picked("sum", sum, at)))
		outputs.Lines.At = borders
		outputs.X.Max, outputs.Y.Min, outputs.Y.Max = float64(l), lo, hi
		names := make([]string, 0, 2*len(x))
		for k := range x {
			names = append(names, fmt.Sprintf("Re %d", k), fmt.Sprintf("Im %d", k))
		}
		f.Frames = append(f.Frames, figure.Frame{Label: fmt.Sprintf("piece %d of %d", i+1, len(states)),
			Panels: []figure.Panel{outputs, {Title: "state at the beginning of the piece",
				Y:    figure.Axis{Label: "x", Min: least, Max: most},
				Bars: &figure.Bars{Names: names, Series: []figure.Series{{Name: "x", Y: ssm.ReIm(x)}}}}}})
	}
	at := evenly(l, mostPoints)
	page := &figure.Page{
		Title: "A long convolution by pieces",
		Subtitle: fmt.Sprintf("signal: %s, %d samples in pieces of %d; %s, a state of %d numbers, dt %g", s.name, l,
			o.Piece, o.Init, o.N, o.Dt),
		Notes: s.notes,
		Figures: []*figure.Figure{f, still("whole", "Signal, kernel and output", "What the pieces add up to.", "",
			lines("signal and output", "sample", "", picked("u", s.u, at), picked("y", whole, at)),
			lines("kernel", "lag", "", picked("K", m.Kernel(method, l), at)))},
	}
	return page, nil
}
