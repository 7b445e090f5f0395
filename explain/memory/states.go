package memory

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// The maximum number of cells of a picture of a state. If there are more numbers, each cell is the mean of several.
const (
	mostStateRows = 48
	mostStateCols = 96
)

// States returns a page about what a text has left in a model: how surprising each token was, the size of each layer's
// state, and the states themselves. tokens are the text, logProbs the natural logarithms of their probabilities, NaN if
// unknown. It does not run the model.
func States(bb *model.Backbone, s *model.State, tokens []string, logProbs []float32) *figure.Page {
	p := &figure.Page{
		Title:    "What the model holds",
		Subtitle: fmt.Sprintf("%d tokens, of which the states have seen %d", len(tokens), s.Position),
		Figures:  []*figure.Figure{surpriseOf(tokens, logProbs)},
	}
	sizes := &figure.Bars{Across: true, Series: []figure.Series{{Name: "norm"}}}
	var states []*figure.Figure
	for i, b := range bb.Blocks {
		name := fmt.Sprintf("layer %d · %s", i, b.Kind)
		f := &figure.Figure{
			Name: fmt.Sprintf("state-%d", i), Title: "State of " + name, Group: "states", Pick: name,
			Caption: "The numbers that the layer carries to the next token, a picture for each part. " +
				"Rows are the first axis of the part. Blue is below zero, orange above.",
			Frames: []figure.Frame{{}},
		}
		sum := 0.0
		s.Mixers[i].Tensors(func(part string, x *tensor.Tensor) {
			values := make([]float32, x.Len())
			x.CopyTo(values)
			for _, v := range values {
				sum += float64(v) * float64(v)
			}
			if len(values) > 0 {
				f.Frames[0].Panels = append(f.Frames[0].Panels, statePanel(part, x.Shape(), values))
			}
		})
		sizes.Names = append(sizes.Names, name)
		sizes.Series[0].Y = append(sizes.Series[0].Y, math.Sqrt(sum))
		if len(f.Frames[0].Panels) > 0 {
			states = append(states, f)
		}
	}
	p.Figures = append(p.Figures, &figure.Figure{
		Name: "norms", Title: "Size of the states", Caption: "The Euclidean norm of all numbers of a layer's state.",
		Frames: []figure.Frame{{Panels: []figure.Panel{{X: figure.Axis{Label: "norm"}, Bars: sizes}}}},
	})
	p.Figures = append(p.Figures, states...)
	return p
}

// surpriseOf returns a figure of a text with the surprise of each token, -log p in nats, if it is known.
func surpriseOf(tokens []string, logProbs []float32) *figure.Figure {
	t := &figure.Text{Tokens: tokens, Mark: len(tokens) - 1, Unit: "nats"}
	for i := range tokens {
		v := math.NaN()
		if i < len(logProbs) {
			v = -float64(logProbs[i])
		}
		t.Values = append(t.Values, v)
	}
	return &figure.Figure{
		Name: "text", Title: "The text",
		Caption: "The surprise -log p of each token that the model wrote, in nats.",
		Frames:  []figure.Frame{{Panels: []figure.Panel{{Text: t}}}},
	}
}

// statePanel returns a part of a state as a map: its first axis as rows, all others as columns.
func statePanel(name string, shape []int, values []float32) figure.Panel {
	rows := 1
	if len(shape) > 1 {
		rows = shape[0]
	}
	cols := len(values) / rows
	m := &figure.Map{Diverging: true, RowStep: (rows + mostStateRows - 1) / mostStateRows,
		ColStep: (cols + mostStateCols - 1) / mostStateCols}
	m.Rows, m.Cols = (rows+m.RowStep-1)/m.RowStep, (cols+m.ColStep-1)/m.ColStep
	m.Values = make(figure.Floats, m.Rows*m.Cols)
	count := make([]float64, len(m.Values))
	for r := range rows {
		for c := range cols {
			cell := r/m.RowStep*m.Cols + c/m.ColStep
			m.Values[cell] += float64(values[r*cols+c])
			count[cell]++
		}
	}
	for i := range m.Values {
		m.Values[i] /= count[i]
	}
	title := fmt.Sprintf("%s %v", name, shape)
	if m.RowStep*m.ColStep > 1 {
		title += fmt.Sprintf(", means of %d × %d", m.RowStep, m.ColStep)
	}
	return figure.Panel{Title: title, X: figure.Axis{Label: "number"}, Y: figure.Axis{Label: "row"}, Map: m}
}
