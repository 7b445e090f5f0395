package surprise

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Figures draws the report.
func (r *Report) Figures(tok tokenizer.Tokenizer) []*figure.Figure {
	figures := []*figure.Figure{r.summary(), r.calibration(), r.along(), r.histogram(), {
		Name: "surprise-first", Title: "The beginning of the text",
		Caption: "The surprise -log p of each token, in nats. " +
			"Each is predicted from the tokens before it in its window.",
		Frames: []figure.Frame{{Panels: []figure.Panel{{Text: surpriseText(tok, r.First)}}}}}}
	for i, p := range r.Passages {
		var all []Token
		for _, id := range p.Before {
			all = append(all, Token{ID: id, Nats: math.NaN()})
		}
		all = append(all, p.Tokens...)
		for _, id := range p.After {
			all = append(all, Token{ID: id, Nats: math.NaN()})
		}
		figures = append(figures, &figure.Figure{Name: fmt.Sprintf("surprise-passage-%d", i+1),
			Title: "The worst predicted passages", Group: "passages",
			Pick: fmt.Sprintf("%d. token %d, %.3g nats a token", i+1, p.Start, p.Mean),
			Caption: fmt.Sprintf("Passages of %d tokens with the largest mean surprise, in color, "+
				"and the text around them. They do not overlap.", r.Options.Passage),
			Frames: []figure.Frame{{Panels: []figure.Panel{{Text: surpriseText(tok, all)}}}}})
	}
	return append(figures, r.costly(tok))
}

// surpriseText returns tokens colored by their surprise.
func surpriseText(tok tokenizer.Tokenizer, all []Token) *figure.Text {
	text := &figure.Text{Unit: "nats", Mark: -1}
	for _, x := range all {
		note := ""
		if !math.IsNaN(x.Nats) {
			note = fmt.Sprintf("p %s, %.3g nats where %.3g were expected; most probable %s",
				explain.Percent(math.Exp(-x.Nats)), x.Nats, x.Entropy, explain.LikelyText(tok, []explain.Likely{x.Top}))
		}
		text.Tokens, text.Values = append(text.Tokens, explain.TokenText(tok, x.ID)), append(text.Values, x.Nats)
		text.Notes = append(text.Notes, note)
	}
	return text
}

func (r *Report) summary() *figure.Figure {
	loss := r.Sum / float64(r.Tokens)
	rows := [][]string{
		{"tokens predicted", fmt.Sprint(r.Tokens)},
		{"loss, nats per token", figure.Number(loss)},
		{"perplexity", figure.Number(math.Exp(loss))},
		{"entropy of the predictions, nats per token", figure.Number(r.Entropy / float64(r.Tokens))},
		{"most probable token came", figure.Share(float64(r.Right) / float64(r.Tokens))},
		{"expected calibration error", figure.Share(r.ECE)},
		{"largest calibration error of a bin", figure.Share(r.MCE)},
	}
	if r.Bytes > 0 {
		rows = append(rows, []string{"bits per byte", figure.Number(r.Sum / math.Ln2 / float64(r.Bytes))})
	}
	return &figure.Figure{Name: "surprise-summary", Title: "How well the text is predicted",
		Caption: "The loss is the mean surprise -log p of the tokens that came. " +
			"The entropy is the loss that the model expects. A calibrated model has both the same.",
		Frames: []figure.Frame{{Panels: []figure.Panel{{Table: &figure.Table{Columns: []string{"", ""}, Rows: rows}}}}}}
}

func (r *Report) calibration() *figure.Figure {
	line := figure.Series{Name: "found", Points: true}
	counts := figure.Series{Name: "tokens"}
	bars := &figure.Bars{}
	for i, b := range r.Bins {
		bars.Names = append(bars.Names, fmt.Sprintf("%.3g", float64(i)/float64(len(r.Bins))))
		counts.Y = append(counts.Y, float64(b.Count))
		if b.Count > 0 {
			line.X, line.Y = append(line.X, b.Confidence), append(line.Y, b.Accuracy)
			line.Labels = append(line.Labels, fmt.Sprintf("%d tokens: sure to %s, right in %s", b.Count,
				explain.Percent(b.Confidence), explain.Percent(b.Accuracy)))
		}
	}
	bars.Series = []figure.Series{counts}
	return &figure.Figure{Name: "surprise-calibration", Title: "Does the model know what it knows?", Columns: 2,
		Caption: fmt.Sprintf("Reliability diagram: "+
			"predictions in %d bins by the probability of the most probable token, and how often that token comes. "+
			"Below the diagonal the model is too confident. ECE = Σ_m |B_m|/n · |acc(B_m) - conf(B_m)| = %.4g.",
			len(r.Bins), r.ECE),
		Source: "On Calibration of Modern Neural Networks, arXiv:1706.04599, eq. 1 to 3",
		Frames: []figure.Frame{{Panels: []figure.Panel{
			{Title: "reliability", Square: true, X: figure.Axis{Label: "confidence", Max: 1},
				Y: figure.Axis{Label: "accuracy", Max: 1}, Lines: &figure.Lines{Series: []figure.Series{
					{Name: "calibrated", X: figure.Floats{0, 1}, Y: figure.Floats{0, 1}, Dashed: true}, line}}},
			{Title: "tokens in each bin", X: figure.Axis{Label: "confidence from"}, Bars: bars}}}}}
}

func (r *Report) along() *figure.Figure {
	surprise, entropy := figure.Series{Name: "surprise"}, figure.Series{Name: "entropy", Dashed: true}
	most := figure.Series{Name: "largest surprise", Points: true}
	for _, p := range r.Curve {
		x := float64(p.Start)
		surprise.X, surprise.Y = append(surprise.X, x), append(surprise.Y, p.Mean)
		entropy.X, entropy.Y = append(entropy.X, x), append(entropy.Y, p.Entropy)
		most.X, most.Y = append(most.X, x), append(most.Y, p.Most)
	}
	return &figure.Figure{Name: "surprise-along", Title: "Surprise and entropy along the text",
		Caption: fmt.Sprintf("Means of %d tokens each, and the largest surprise among them.", r.CurveStep),
		Frames: []figure.Frame{{Panels: []figure.Panel{{X: figure.Axis{Label: "token"}, Y: figure.Axis{Label: "nats"},
			Lines: &figure.Lines{Series: []figure.Series{surprise, entropy, most}}}}}}}
}

func (r *Report) histogram() *figure.Figure {
	bars := &figure.Bars{Series: []figure.Series{{Name: "tokens"}}}
	for i, n := range r.Histogram {
		name := fmt.Sprint(float64(i) / 2)
		if i == len(r.Histogram)-1 {
			name = "≥ " + name
		}
		bars.Names, bars.Series[0].Y = append(bars.Names, name), append(bars.Series[0].Y, float64(n))
	}
	return &figure.Figure{Name: "surprise-histogram", Title: "How many tokens are how surprising",
		Caption: "Tokens by their surprise, in steps of half a nat.",
		Frames: []figure.Frame{{Panels: []figure.Panel{{X: figure.Axis{Label: "surprise from, nats"},
			Y: figure.Axis{Label: "tokens"}, Bars: bars}}}}}
}

func (r *Report) costly(tok tokenizer.Tokenizer) *figure.Figure {
	table := &figure.Table{Columns: []string{"token", "times", "mean surprise, nats", "part of the loss"}}
	for _, c := range r.Costly {
		table.Rows = append(table.Rows, []string{explain.Quoted(tok, c.ID), fmt.Sprint(c.Count),
			figure.Number(c.Sum / float64(c.Count)),
			figure.Share(c.Sum / math.Max(r.Sum, math.SmallestNonzeroFloat64))})
	}
	return &figure.Figure{Name: "surprise-costly", Title: "The tokens that cost most",
		Caption: "Tokens of the vocabulary by the sum of the surprises of all their occurrences.",
		Frames:  []figure.Frame{{Panels: []figure.Panel{{Table: table}}}}}
}
