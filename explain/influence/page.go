package influence

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// operatorSource is the paper that the operators follow.
const operatorSource = "A Unified Implicit Attention Formulation for Gated-Linear Recurrent Sequence Models, " +
	"arXiv:2405.16504, §3"

// Page shows the influence. names are the tokens, and next is the predicted token of the gradient.
func (r *Report) Page(names []string, next string) *figure.Page {
	p := &figure.Page{Title: "Influence: what tokens draw on"}
	p.Notes = r.notes()
	add := func(f *figure.Figure) {
		if f != nil {
			p.Figures = append(p.Figures, f)
		}
	}
	add(r.attribution(names, next))
	all := r.all()
	parallel.Each(len(all), func(i int) { all[i].scale() })
	for _, of := range []func(*Layer, []string) *figure.Figure{r.drawn, r.mapOf} {
		for _, l := range all {
			if l.Why == "" {
				add(of(l, names))
			}
		}
	}
	add(r.depths())
	add(r.table())
	if r.Gradients != nil {
		p.Figures = append(p.Figures, r.Gradients.depths(names, next)...)
	}
	return p
}

// all returns the layers. A shared block precedes its layer.
func (r *Report) all() (all []*Layer) {
	for i := range r.Layers {
		if block := r.Layers[i].Shared; block != nil {
			all = append(all, block)
		}
		all = append(all, &r.Layers[i])
	}
	return all
}

// notes lists what was summarized or omitted, and what needs explanation.
func (r *Report) notes() []string {
	var notes []string
	if len(r.Layers) > 0 && r.Layers[0].Step > 1 {
		step := r.Layers[0].Step
		notes = append(notes, fmt.Sprintf("The text has %d tokens. A cell of a map stands for %d×%d of them: "+
			"the sum over sources, the mean over targets. Colors of single tokens are not summarized.", r.Tokens, step,
			step))
	}
	if r.Rollout == nil {
		notes = append(notes,
			"The rollout through all layers is left out: it needs all layers, all heads, and a linear form of each.")
	}
	for _, l := range r.all() {
		if l.Why != "" {
			notes = append(notes, fmt.Sprintf("Layer %d (%s) is left out: %s.", l.Layer, l.Mixer, l.Why))
		}
		if l.Shared != nil {
			notes = append(notes, fmt.Sprintf("Layer %d (%s) also sees the output of a shared attention block. "+
				"That block (%s) has its own map. The layer's map is of the mixer after it.", l.Layer, l.Mixer,
				l.Shared.Mixer))
		}
	}
	if r.Options.Head != AllHeads {
		notes = append(notes, fmt.Sprintf("Only head %d of each layer is shown. "+
			"A layer with independent channels has a head for each channel.", r.Options.Head))
	}
	return notes
}

// what describes the measure in words: a title, and a formula.
func (r *Report) what() (title, formula string) {
	switch r.Options.Measure {
	case Mean:
		return "mean over channels", "the mean of the operator's matrices over all channels"
	case Norm:
		return "size", "the size ‖C[t,s]‖ of the addition by s"
	}
	return "share", "the share of s in what the layer writes, ⟨C[t,s], w⟩/‖w‖² with w = y[t] - b[t]: " +
		"the shares of a row sum to 1, and negative ones work against the rest"
}

// scaleOf returns the color scale of a map or a text. It ends at the magnitude of all but the largest percent, since a
// few far larger values would leave the rest white. If there are negative values, it is symmetric around 0. Values of a
// position for itself, for which own returns true, are not counted.
func scaleOf(values []float64, own func(i int) bool) (low, high float64, diverging bool) {
	sizes := make([]float64, 0, len(values))
	least := 0.0
	for i, v := range values {
		if v != 0 && !own(i) {
			sizes = append(sizes, math.Abs(v))
		}
		least = min(least, v)
	}
	if len(sizes) == 0 {
		return 0, 1, false
	}
	slices.Sort(sizes)
	high = sizes[len(sizes)-1-len(sizes)/100]
	if least >= 0 {
		return 0, high, false
	}
	return -high, high, true
}

// own reports whether i is the index of the token whose sources are shown.
func (r *Report) own(i int) bool { return i == r.Token }

// pick returns the name of a layer among others.
func (l *Layer) pick() string { return fmt.Sprintf("layer %d · %s", l.Layer, l.Mixer) }

// key returns the layer's part of the names of its figures.
func (l *Layer) key() string {
	if l.Block {
		return fmt.Sprintf("shared-%d", l.Layer)
	}
	return fmt.Sprintf("layer-%d", l.Layer)
}

// output returns the output of the operator in words, and the papers.
func (l *Layer) output() (words, source string) {
	if l.Block {
		return "What the block adds to what the layer's mixer sees",
			operatorSource + "; the block: The Zamba2 Suite, arXiv:2411.15242, §3"
	}
	return "The layer's output", operatorSource
}

// links returns the values of all tokens for each token that can be selected, or nil if there is no row for each.
func (r *Report) links(values []float64, low, high float64, diverging bool, unit string) *figure.Map {
	if n := r.Tokens; n <= figure.MostLinks && len(values) == n*n {
		return &figure.Map{Rows: n, Cols: n, Values: values, Diverging: diverging, Min: low, Max: high,
			Unit: unit}
	}
	return nil
}

// fixed describes what is held fixed.
func (l *Layer) fixed() string {
	if len(l.Held) == 0 {
		return "Nothing is held fixed: the layer is linear after its values."
	}
	return "Held fixed at their values for this text: " + strings.Join(l.Held, ", ") + "."
}

// mapOf returns the figure of a layer's map.
func (r *Report) mapOf(l *Layer, names []string) *figure.Figure {
	title, formula := r.what()
	low, high, diverging := l.colors.low, l.colors.high, l.colors.diverging
	output, source := l.output()
	cells := cellNames(names, l.Step)
	m := &figure.Map{
		Rows: l.Cells, Cols: l.Cells, Values: l.Map, Diverging: diverging, Min: low, Max: high,
		Unit:     title,
		RowNames: cells, ColNames: cells, RowStep: l.Step, ColStep: l.Step, RowClick: "what this token draws on",
	}
	return &figure.Figure{
		Name: "influence-" + l.key(), Title: "Who draws on whom",
		Group: "influence", Pick: l.pick(),
		Caption: fmt.Sprintf("A row is a token t at which the layer (%s) writes, "+
			"a column a token s that it draws on. %s is exactly y[t] = b[t] + Σ_s C[t,s]. The color is %s. %s", l.Mixer,
			output, formula, l.fixed()),
		Source: source,
		Frames: []figure.Frame{{Panels: []figure.Panel{{
			X: figure.Axis{Label: "drawn on"}, Y: figure.Axis{Label: "written at"}, Square: true, Map: m,
		}}}},
	}
}

// mapColors is the color scale of a map.
type mapColors struct {
	low, high float64
	diverging bool
}

// scale sets the color scale of the map.
func (l *Layer) scale() {
	c := &l.colors
	c.low, c.high, c.diverging = scaleOf(l.Map, func(i int) bool { return i/l.Cells == i%l.Cells })
}

// drawn returns the figure of the token's sources in a layer.
func (r *Report) drawn(l *Layer, names []string) *figure.Figure {
	title, formula := r.what()
	low, high, diverging := scaleOf(l.Row, r.own)
	_, source := l.output()
	return &figure.Figure{
		Name: "drawn-" + l.key(), Title: fmt.Sprintf("What token %d, “%s”, draws on", r.Token,
			names[r.Token]), Group: "drawn", Pick: l.pick(),
		Caption: fmt.Sprintf("The color of a token s is %s. The token's own share may exceed the scale. %s", formula,
			l.fixed()),
		Source: source,
		Frames: []figure.Frame{{Panels: []figure.Panel{{Text: &figure.Text{
			Tokens: names, Values: l.Row, Diverging: diverging, Min: low, Max: high, Unit: title,
			Mark: r.Token, Links: r.links(l.Map, l.colors.low, l.colors.high, l.colors.diverging, title),
		}}}}},
	}
}

// attribution returns the figure of the token's sources through all layers.
func (r *Report) attribution(names []string, next string) *figure.Figure {
	fig := &figure.Figure{
		Name: "attribution", Title: fmt.Sprintf("Where token %d, “%s”, comes from through all layers", r.Token,
			names[r.Token]),
		Columns: 1, Frames: []figure.Frame{{}},
	}
	var captions, sources []string
	if r.Rollout != nil {
		v := r.Rollout[0]
		_, high, _ := scaleOf(v, r.own)
		_, most, _ := scaleOf(r.Sources, func(i int) bool { return i/r.Tokens == i%r.Tokens })
		fig.Frames[0].Panels = append(fig.Frames[0].Panels, figure.Panel{Title: "rollout", Text: &figure.Text{
			Tokens: names, Values: v, Max: high, Unit: "share", Mark: r.Token,
			Links: r.links(r.Sources, 0, most, false, "share"),
		}})
		captions = append(captions, "Rollout goes back from the last layer to the first by v ← v A, "+
			"A[t,s] = (1-λ[t]) δ_ts + λ[t] |m[t,s]|/Σ|m[t,·]|. m is the measure of a layer, "+
			"and λ = ‖y-b‖/(‖x‖+‖y-b‖) the size of its addition beside the stream x. Shares sum to 1. "+
			"Feed-forward parts move nothing. It is a summary, not a derivative.")
		sources = append(sources,
			"Quantifying Attention Flow in Transformers, arXiv:2005.00928, §3; the residual as in arXiv:2109.07152")
	}
	if r.Gradients != nil {
		fig.Frames[0].Panels = append(fig.Frames[0].Panels, r.Gradients.text(names, next))
		captions = append(captions, gradientCaption+" It is an independent check.")
		sources = append(sources, gradientSource)
	}
	if captions == nil {
		return nil
	}
	fig.Caption, fig.Source = strings.Join(captions, " "), strings.Join(sources, "; ")
	return fig
}

// depths returns the figure of the rollout before each layer.
func (r *Report) depths() *figure.Figure {
	if r.Rollout == nil {
		return nil
	}
	step := cellsOf(1, r.Tokens)
	cols := (r.Tokens + step - 1) / step
	values := make([]float64, len(r.Rollout)*cols)
	rows := make([]string, len(r.Rollout))
	for i, row := range r.Rollout {
		rows[i] = fmt.Sprintf("before layer %d", i)
		for s, v := range row {
			values[i*cols+s/step] += v
		}
	}
	rows[len(rows)-1] = "after the last layer"
	return &figure.Figure{
		Name: "depth", Title: fmt.Sprintf("Token %d, layer by layer", r.Token),
		Caption: "Row i is the rollout down to layer i: where the token's content is before that layer. " +
			"It starts at the bottom, with the token alone.",
		Source: "arXiv:2005.00928, §3",
		Frames: []figure.Frame{{Panels: []figure.Panel{{
			X: figure.Axis{Label: "token"},
			Map: &figure.Map{
				Rows: len(rows), Cols: cols, Values: values, Log: true, Unit: "share", RowNames: rows,
				ColStep: step, RowClick: "where it is found",
			},
		}}}},
	}
}

// table returns a table with a row for each layer.
func (r *Report) table() *figure.Figure {
	t := &figure.Table{Columns: []string{"layer", "mixer", "writes", "itself", "reach", "draws most on"}}
	for _, l := range r.all() {
		if l.Why != "" {
			t.Rows = append(t.Rows, []string{fmt.Sprint(l.Layer), l.Mixer, "", "", "", "left out"})
			continue
		}
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(l.Layer), l.Mixer, figure.Number(l.Writes), figure.Number(l.Own),
			figure.Number(l.Reach), most(l.Row),
		})
	}
	return &figure.Figure{
		Name: "layers", Title: "The layers",
		Caption: fmt.Sprintf("Writes: the size of a layer's addition beside the stream, ‖y-b‖/(‖x‖+‖y-b‖). Itself: "+
			"the share of a position in what it draws on. Reach: the mean distance to what is drawn on, in tokens. "+
			"Both are weighted by the size of the measure and averaged over positions. "+
			"The last column has the positions that token %d draws on most.", r.Token),
		Frames: []figure.Frame{{Panels: []figure.Panel{{Table: t}}}},
	}
}

// most lists the positions with the largest magnitudes in a row.
func most(row []float64) string {
	at := numbersTo(len(row))
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(math.Abs(row[b]), math.Abs(row[a])) })
	var out []string
	for _, s := range at[:min(3, len(at))] {
		if row[s] != 0 {
			out = append(out, fmt.Sprintf("%d (%.2g)", s, row[s]))
		}
	}
	return strings.Join(out, ", ")
}

// cellNames returns the names of cells of step tokens: the first token, and an ellipsis if there are more.
func cellNames(names []string, step int) []string {
	if step <= 1 {
		return names
	}
	var out []string
	for at := 0; at < len(names); at += step {
		out = append(out, fmt.Sprintf("%d-%d %s…", at, min(at+step, len(names))-1, names[at]))
	}
	return out
}
