package paths

import (
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// parted is the relative distance above which states count as different.
const parted = 0.01

// Figures draws the report.
func (r *Report) Figures(tok tokenizer.Tokenizer) []*figure.Figure {
	figures := []*figure.Figure{r.texts(tok), r.layers(tok), r.table(tok)}
	names := r.places(tok)
	for k, c := range r.Channels {
		if len(c.Names) == 0 {
			continue // a layer without a state
		}
		mp := figure.GridOf(c.Names, names, c.at)
		figures = append(figures, &figure.Figure{Name: fmt.Sprintf("paths-channels-%d", k),
			Title: "Where the states diverge, by channel", Group: "channels", Pick: r.Layers[k],
			Caption: "Relative distance of the state of each channel or head as both paths are read. " +
				"A group of neighbors has the name of its first.",
			Frames: []figure.Frame{{Panels: []figure.Panel{{X: figure.Axis{Label: "tokens read"},
				Y: figure.Axis{Label: "tensor and channel"}, Map: mp}}}}})
	}
	if len(r.Blame) > 0 {
		figures = append(figures, r.blamed(tok))
	}
	return append(figures, r.exchanged(tok), &figure.Figure{Name: "paths-next", Title: "What comes after each path",
		Frames:  []figure.Frame{{Panels: explain.Beside(tok, []string{"path 1", "path 2"}, nil, r.Next[0], r.Next[1])}},
		Columns: 1})
}

// places returns the names of the places: the tokens that have been read last.
func (r *Report) places(tok tokenizer.Tokenizer) []string {
	var names []string
	for _, at := range r.At {
		a, b := explain.TokenText(tok, r.IDs[0][at-1]), explain.TokenText(tok, r.IDs[1][at-1])
		if r.IDs[0][at-1] != r.IDs[1][at-1] {
			a += " / " + b
		}
		names = append(names, fmt.Sprintf("%d: %s", at-1, a))
	}
	return names
}

// first returns the number of the first token that is shown.
func (r *Report) first() int { return max(0, r.Common-beforeFork) }

// texts returns a figure of both paths, colored by the distance of their predictions.
func (r *Report) texts(tok tokenizer.Tokenizer) *figure.Figure {
	f := &figure.Figure{Name: "paths-texts", Title: "The two paths", Columns: 1,
		Caption: fmt.Sprintf("They diverge at token %d, which is marked. "+
			"The color is the distance of the predictions of the next token: "+
			"the Jensen-Shannon divergence ½KL(p‖m) + ½KL(q‖m), m = (p+q)/2, 0 to log 2 = 0.693 nats.", r.Common),
		Frames: []figure.Frame{{}}}
	for i, ids := range r.IDs {
		from := r.first()
		to := min(len(ids), from+explain.MostShown)
		text := &figure.Text{Tokens: explain.TokenTexts(tok, ids[from:to]), Mark: r.Common - from, Max: math.Ln2,
			Unit: "nats"}
		for j := from; j < to; j++ {
			v := math.NaN()
			if k, found := slices.BinarySearch(r.At, j+1); found || k < len(r.At) {
				v = r.JS[k]
			}
			text.Values = append(text.Values, v)
		}
		f.Frames[0].Panels = append(f.Frames[0].Panels, figure.Panel{Title: fmt.Sprintf("path %d", i+1), Text: text})
	}
	return f
}

// layers returns a map of layers and tokens, and the predictions next to it.
func (r *Report) layers(tok tokenizer.Tokenizer) *figure.Figure {
	names := r.places(tok)
	mp := figure.GridOf(r.Layers, names, func(k, i int) float64 { return r.Distance[k][i] })
	lines := &figure.Lines{At: []float64{float64(r.Common)}}
	for k, name := range append(slices.Clone(r.Layers), "") {
		s := figure.Series{Name: name, Labels: names}
		of := r.JS
		if k < len(r.Layers) {
			of = r.Distance[k]
		} else {
			s.Name, s.Dashed = "predictions: JS divergence, nats", true
		}
		for i, at := range r.At {
			s.X, s.Y = append(s.X, float64(at)), append(s.Y, of[i])
		}
		if k == len(r.Layers) || len(r.Layers) <= 12 {
			lines.Series = append(lines.Series, s)
		}
	}
	return &figure.Figure{Name: "paths-layers", Title: "Where the states diverge, by layer", Columns: 1,
		Caption: "Relative distance ‖a - b‖ / " +
			"((‖a‖ + ‖b‖)/2) of the states of each layer after the same number of tokens: 0 the same, " +
			"about 1.4 unrelated, 2 opposite.",
		Frames: []figure.Frame{{Panels: []figure.Panel{
			{X: figure.Axis{Label: "token"}, Y: figure.Axis{Label: "layer"}, Map: mp},
			{X: figure.Axis{Label: "tokens read"}, Y: figure.Axis{Label: "distance"}, Lines: lines}}}}}
}

// table lists for each layer the token at which its states diverged.
func (r *Report) table(tok tokenizer.Tokenizer) *figure.Figure {
	table := &figure.Table{Columns: []string{"layer", "parts at", "largest step at", "step", "largest distance",
		"distance at the end"}}
	names := r.places(tok)
	for k, d := range r.Distance {
		at, step, top, parts := -1, 0.0, 0.0, "never"
		for i, v := range d {
			before := 0.0
			if i > 0 {
				before = d[i-1]
			}
			if v-before > step {
				at, step = i, v-before
			}
			if v >= parted && parts == "never" {
				parts = names[i]
			}
			top = max(top, v)
		}
		where := "nowhere"
		if at >= 0 {
			where = names[at]
		}
		table.Rows = append(table.Rows, []string{r.Layers[k], parts, where, figure.Number(step),
			figure.Number(top), figure.Number(d[len(d)-1])})
	}
	return &figure.Figure{Name: "paths-table", Title: "Which token made the difference",
		Caption: fmt.Sprintf("For each layer, the token at which its states diverge, by a relative distance of %g, "+
			"and the token with the largest single step.", parted),
		Frames: []figure.Frame{{Panels: []figure.Panel{{Table: table}}}}}
}

// blamed returns a figure of the effect of each differing token.
func (r *Report) blamed(tok tokenizer.Tokenizer) *figure.Figure {
	bars := &figure.Bars{Across: true, Series: []figure.Series{{Name: "mean distance of the states behind the paths"},
		{Name: "JS divergence of the predictions, nats"}}}
	for _, x := range r.Blame {
		bars.Names = append(bars.Names, fmt.Sprintf("%d: %s for %s", x.Token, explain.Quoted(tok, r.IDs[0][x.Token]),
			explain.Quoted(tok, r.IDs[1][x.Token])))
		bars.Series[0].Y = append(bars.Series[0].Y, x.Distance)
		bars.Series[1].Y = append(bars.Series[1].Y, x.JS)
	}
	whole := 0.0
	for _, d := range r.Distance {
		whole += d[len(d)-1] / float64(len(r.Distance))
	}
	return &figure.Figure{Name: "paths-blame", Title: "With one token made equal",
		Caption: fmt.Sprintf("The rest of the difference if one token of path 2 is that of path 1 "+
			"and all others stay. Without a change the mean distance is %.3g and the divergence %.3g. "+
			"The shorter a bar, the more that token matters.", whole, r.JS[len(r.JS)-1]),
		Frames: []figure.Frame{{Panels: []figure.Panel{{Bars: bars}}}}}
}

// contrast returns the token that the distribution of scores a favors most over that of b, and the one that b favors
// most over a.
func contrast(a, b []float32, of, from explain.Softmax) (first, second int32) {
	least, most := math.Inf(1), math.Inf(-1)
	for i := range a {
		d := math.Exp(float64(a[i])-of.Norm) - math.Exp(float64(b[i])-from.Norm)
		if d > most {
			first, most = int32(i), d
		}
		if d < least {
			second, least = int32(i), d
		}
	}
	return first, second
}

// exchanged returns a table by layer.
func (r *Report) exchanged(tok tokenizer.Tokenizer) *figure.Figure {
	var of [2]explain.Softmax
	for i, z := range r.Next {
		of[i], _ = explain.SoftmaxOf(z)
	}
	first, second := contrast(r.Next[0], r.Next[1], of[0], of[1])
	p := func(z []float32, id int32) string {
		s, _ := explain.SoftmaxOf(z)
		return explain.Percent(math.Exp(float64(z[id]) - s.Norm))
	}
	table := &figure.Table{Columns: []string{"state from path 2", "KL from path 1", "KL from path 2",
		"p of " + explain.Quoted(tok, first), "p of " + explain.Quoted(tok, second), "most probable"}}
	most := func(z []float32) string {
		s, _ := explain.SoftmaxOf(z)
		return explain.LikelyText(tok, explain.Likeliest(z, s, 1))
	}
	table.Rows = append(table.Rows, []string{"none: path 1", "0",
		figure.Number(explain.Divergence(r.Next[1], r.Next[0], of[1], of[0])), p(r.Next[0], first),
		p(r.Next[0], second), most(r.Next[0])})
	bars := &figure.Bars{Across: true, Series: []figure.Series{{Name: "KL from path 1, nats"},
		{Name: "KL from path 2, nats"}}}
	for _, x := range r.Exchange {
		if x.Skipped != "" {
			table.Rows = append(table.Rows, []string{r.Layers[x.Layer], "-", "-", "-", "-",
				"not exchanged: the paths have different lengths, and the state holds each token"})
			continue
		}
		table.Rows = append(table.Rows, []string{r.Layers[x.Layer], figure.Number(x.FromFirst),
			figure.Number(x.FromSecond), p(x.Scores, first), p(x.Scores, second),
			most(x.Scores)})
		bars.Names = append(bars.Names, r.Layers[x.Layer])
		bars.Series[0].Y = append(bars.Series[0].Y, x.FromFirst)
		bars.Series[1].Y = append(bars.Series[1].Y, x.FromSecond)
	}
	table.Rows = append(table.Rows, []string{"all: path 2",
		figure.Number(explain.Divergence(r.Next[0], r.Next[1], of[0], of[1])), "0", p(r.Next[1], first),
		p(r.Next[1], second), most(r.Next[1])})
	panels := []figure.Panel{{Table: table}}
	if len(bars.Names) > 0 {
		panels = append(panels, figure.Panel{Title: "what one layer's state changes", Bars: bars})
	}
	return &figure.Figure{Name: "paths-exchange", Title: "One layer's state from the other path", Columns: 1,
		Caption: "Path 1 is read up to its last token. Then the state of one layer is replaced by that of path 2, " +
			"and the last token of path 1 is read. " +
			"The table shows how the prediction moves from that of path 1 to that of path 2. " +
			"KL is Σ p (log p - log q), p the prediction of the path. " +
			"The two tokens are those whose probabilities differ most between the paths.",
		Frames: []figure.Frame{{Panels: panels}}}
}
