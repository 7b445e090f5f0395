package fit

import (
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/onnx"
)

// mostFrame is how many samples a frame may have that a file computes: its basis is a constant of 2.5 times the square
// or more.
const mostFrame = 2000

// frames adds the input samples and the frames of them as rows, as package table reads recordings; "" if the rows are
// not frames of whole recordings.
func (x *onnxModel) frames() onnx.Value {
	s, g := x.Spectrum, x.g
	if s == nil || x.step || x.timeGoesIn() || len(x.Calendar) > 0 || s.Frame*s.Rate() > mostFrame {
		return ""
	}
	channels, places := 0, x.bands([]string{"sample"})
	for n := 1; len(places) == 0 && n <= len(x.columns); n++ { // as many channels as make all columns
		var names []string
		for k := range n {
			names = append(names, fmt.Sprintf("sample%d", k+1))
		}
		channels, places = n, x.bands(names)
	}
	if len(places) == 0 {
		return ""
	}
	channels = max(1, channels)
	basis, weights, frame, hop, least, err := s.Basis(s.Rate())
	if err != nil { // its rows are frames of another rate
		return ""
	}
	x.card.Rate = s.Rate()
	v := g.Input("samples", onnx.Double, fmt.Sprintf("samples from -1 to 1, at %g Hz", s.Rate()),
		onnx.Dim{Name: "length"}, onnx.Dim{N: channels})
	v = g.Cast(v, onnx.Float)
	// A recording that is shorter than a frame is one.
	length := g.Slice(g.Op("Shape", v), 0, g.Ints(0), g.Ints(1))
	more := g.Op("Max", g.Op("Sub", g.Ints(frame), length), g.Ints(0))
	v = g.Op("Pad", v, g.Concat(0, g.Ints(0, 0), more, g.Ints(0)))
	v = g.Reshape(g.With("Transpose", []onnx.Attr{{Name: "perm", Value: []int{1, 0}}}, v), channels, 1, -1)
	bins := len(weights) / s.Bands
	v = g.With("Conv", []onnx.Attr{{Name: "strides", Value: []int{hop}}}, v, g.Floats(basis, 2*bins, 1, frame))
	v = g.Op("Mul", v, v)
	v = g.Op("Add", g.Slice(v, 1, g.Ints(0), g.Ints(bins)), g.Slice(v, 1, g.Ints(bins), g.Ints(2*bins)))
	v = g.Reshape(g.With("Transpose", []onnx.Attr{{Name: "perm", Value: []int{2, 0, 1}}}, v), -1, bins)
	turned := make([]float64, len(weights))
	for i, w := range weights {
		turned[i%bins*s.Bands+i/bins] = w
	}
	v = g.Op("Log", g.Op("MatMul", v, g.Floats(turned, bins, s.Bands)))
	v = g.Op("Max", g.Op("Mul", v, g.Number(onnx.Float, 10/math.Ln10)), g.Number(onnx.Float, least))
	return g.Gather(g.Cast(g.Reshape(v, -1, channels*s.Bands), onnx.Double), 1, places...)
}

// bands returns the indices of the columns of the rows among the bands of all columns of samples, or nil if a column is
// not a band.
func (x *onnxModel) bands(samples []string) (places []int) {
	var all []string
	for _, name := range samples {
		for b := range x.Spectrum.Bands {
			all = append(all, x.Spectrum.Column(name, b))
		}
	}
	for _, name := range x.card.Rows {
		at := slices.Index(all, name)
		if at < 0 {
			return nil
		}
		places = append(places, at)
	}
	return places
}
