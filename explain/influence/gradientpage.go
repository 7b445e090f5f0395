package influence

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/explain/figure"
)

const (
	gradientCaption = "Gradient × input is Σ_c x[s,c] ∂ log p/∂x[s,c] for the embedding x[s] of token s. " +
		"It is what the token adds to log p, to first order, with nothing held fixed."
	gradientSource = "gradient × input: Not Just a Black Box, arXiv:1605.01713"
)

// Page shows where a prediction comes from. names are the tokens, and next is the predicted token.
func (r *Gradients) Page(names []string, next string) *figure.Page {
	var notes []string
	if r.Precision != engine.Float32 {
		notes = append(notes, fmt.Sprintf("The weights are in %v. Gradients are of exact products with them.",
			r.Precision))
	}
	return &figure.Page{
		Title: "Gradients: what a prediction comes from", Notes: notes,
		Figures: append([]*figure.Figure{{
			Name: "gradient-tokens", Title: fmt.Sprintf("What makes “%s” likely after token %d", next, r.Token),
			Caption: gradientCaption, Source: gradientSource,
			Frames: []figure.Frame{{Panels: []figure.Panel{r.text(names, next)}}},
		}}, r.depths(names, next)...),
	}
}

// text shows the tokens by their contribution to the prediction.
func (r *Gradients) text(names []string, next string) figure.Panel {
	_, high, _ := scaleOf(r.Stream[0], func(s int) bool { return s == r.Token })
	return figure.Panel{
		Title: fmt.Sprintf("gradient × input for “%s” next, of log-probability %.3f", next, r.LogProb),
		Text: &figure.Text{
			Tokens: names, Values: r.Stream[0], Diverging: true, Min: -high, Max: high, Unit: "nats",
			Mark: r.Token,
		},
	}
}

// depths returns maps over layers and tokens, and totals by layer.
func (r *Gradients) depths(names []string, next string) []*figure.Figure {
	var before []string
	for i := range r.Layers {
		before = append(before, fmt.Sprintf("before layer %d", i))
	}
	of := fmt.Sprintf("the log-probability of “%s” after token %d", next, r.Token)
	return []*figure.Figure{
		r.byLayer("gradient-added", "What each layer adds to the prediction, and where", fmt.Sprintf("A row is a "+
			"layer, a column a token s at which it writes. "+
			"The color is gradient × the layer's addition to the stream, "+
			"Σ_c (x' - x)[s,c] ∂ log p/∂x'[s,c] for the stream x before and x' after it: its part of %s, "+
			"to first order. Additions at other tokens than %d count through later layers.", of, r.Token),
			r.Layers, r.Added, names),
		r.byLayer("gradient-depth", "Where the prediction is found, layer by layer", fmt.Sprintf("Row i is gradient "+
			"× stream before layer i, Σ_c x[s,c] ∂ log p/∂x[s,c]: which tokens hold %s at that depth. "+
			"The first row is gradient × input. After the last layer all of it is at token %d.", of, r.Token),
			append(before, "after the last layer"), r.Stream, names),
		r.table(names),
	}
}

// byLayer returns a map over layers and tokens.
func (r *Gradients) byLayer(name, title, caption string, rows []string, values [][]float64,
	names []string) *figure.Figure {
	step := cellsOf(1, r.Tokens)
	cells := cellNames(names, step)
	all := make([]float64, len(rows)*len(cells))
	for i, row := range values {
		for s, v := range row {
			all[i*len(cells)+s/step] += v
		}
	}
	_, high, _ := scaleOf(all, func(i int) bool { return i%len(cells) == r.Token/step })
	return &figure.Figure{
		Name: name, Title: title, Caption: caption, Source: gradientSource,
		Frames: []figure.Frame{{Panels: []figure.Panel{{
			X: figure.Axis{Label: "token"}, Y: figure.Axis{Label: "layer"},
			Map: &figure.Map{
				Rows: len(rows), Cols: len(cells), Values: all, Diverging: true, Min: -high, Max: high,
				Unit: "nats", RowNames: rows, ColNames: cells, ColStep: step, RowClick: "where it is found",
			},
		}}}},
	}
}

// table returns a table with a row for each layer.
func (r *Gradients) table(names []string) *figure.Figure {
	t := &figure.Table{Columns: []string{"layer", "adds, nats", "all sizes", fmt.Sprintf("at token %d", r.Token),
		"most at"}}
	for i, row := range r.Added {
		sum, sizes := 0.0, 0.0
		for _, v := range row {
			sum, sizes = sum+v, sizes+math.Abs(v)
		}
		t.Rows = append(t.Rows, []string{r.Layers[i], figure.Number(sum), figure.Number(sizes),
			figure.Number(row[r.Token]), largest(row, names)})
	}
	return &figure.Figure{
		Name: "gradient-layers", Title: "The layers' parts",
		Caption: "For each layer, what it adds to the log-probability to first order: the sum over all tokens, " +
			"the sum of the sizes, the part at the token itself, and the token with the most.",
		Source: gradientSource, Frames: []figure.Frame{{Panels: []figure.Panel{{Table: t}}}},
	}
}

// largest returns the name of the token with the largest magnitude.
func largest(row []float64, names []string) string {
	at := slices.MaxFunc(numbersTo(len(row)), func(a, b int) int {
		return cmp.Compare(math.Abs(row[a]), math.Abs(row[b]))
	})
	if row[at] == 0 {
		return "nowhere"
	}
	return fmt.Sprintf("%d “%s” (%.2g)", at, names[at], row[at])
}
