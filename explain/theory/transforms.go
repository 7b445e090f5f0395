package theory

import (
	"context"
	"fmt"
	"math/cmplx"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var transformsView = View{
	Name:  "transforms",
	Short: "The Fourier transforms of a box and of a sine that is cut off",
	Long: `Shows the transforms F(f) = ∫ u(t) exp(-2πi f t) dt of two signals of a width w:

  a box of height 1        sin(π f w) / (π f): w at f = 0, and 0 at every other multiple of 1/w
  a sine of the tone a     (box(f - a) - box(f + a)) / 2i: cutting a sine off multiplies it by a box, and so puts the
                           transform of the box around each of its two lines

What is short in time is wide in frequency. A mean of neighbors is a convolution with a box: it lets slow changes
through, and takes away the tones at the zeros of its transform.`,
	Example: `  hippo explain ssm transforms
  hippo explain ssm transforms --widths 2,8,32 --tone 0.25 --out sines.svg`,
	New: func() Options { return &TransformsOptions{Widths: "0.5,1,4", Tone: 1.5, Highest: 4} },
}

// TransformsOptions holds the options of the view transforms.
type TransformsOptions struct {
	Widths  string  `json:"widths" help:"widths of the box, and of the piece of the sine, in seconds"`
	Tone    float64 `json:"tone" min:"0" max:"1000" help:"of the sine, in turns a second"`
	Highest float64 `json:"highest" min:"0.01" max:"1000" help:"the highest frequency that is shown, in turns a second"`
}

// mostWidths is the maximum number of widths.
const mostWidths = 8

// Page returns the page with the transforms.
func (o *TransformsOptions) Page(context.Context) (*figure.Page, error) {
	widths, err := numbers("widths", o.Widths, 1, mostWidths, 1e-6, 1e6)
	if err != nil {
		return nil, err
	}
	var boxes, sines []figure.Series
	for _, w := range widths {
		name := fmt.Sprintf("width %g", w)
		box, sine := figure.Series{Name: name}, figure.Series{Name: name}
		const points = 2 * mostPoints
		for i := range points + 1 {
			f := o.Highest * (2*float64(i)/points - 1)
			box.X, box.Y = append(box.X, f), append(box.Y, ssm.BoxTransform(w, f))
			sine.X, sine.Y = append(sine.X, f), append(sine.Y, cmplx.Abs(ssm.SineTransform(o.Tone, w, f)))
		}
		boxes, sines = append(boxes, box), append(sines, sine)
	}
	return &figure.Page{
		Title:    "Transforms of a box and a sine",
		Subtitle: fmt.Sprintf("widths %s, tone %g", o.Widths, o.Tone),
		Figures: []*figure.Figure{
			still("box", "A box",
				"The narrower the box, the wider its transform. A convolution with it, a mean over its width, "+
					"multiplies each tone by this number over the width.", "",
				lines("F(f)", "turns a second", "", boxes...)),
			still("sine", "A sine that is cut off",
				"Two lines at ± the tone, each as wide as the transform of the box. The longer the piece, the sharper.",
				"", lines("|F(f)|", "turns a second", "size", sines...)),
		},
	}, nil
}
