package changes

import (
	"context"
	"fmt"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TextDifference compares the predictions of two models with the same tokenizer for a text.
type TextDifference struct {
	IDs    []int32
	LogP   [2][]float64 // log-probability of the next token, after each token except the last
	Next   [2][]float32 // scores after the text
	Losses [2]float64   // means of -LogP, in nats
}

// Differ compares the predictions of two models for ids.
func Differ(ctx context.Context, a, b *explain.Language, ids []int32) (*TextDifference, error) {
	d := &TextDifference{IDs: ids}
	for i, g := range []*explain.Language{a, b} {
		err := g.Check(ids)
		var p *explain.Prediction
		if err == nil {
			p, err = g.Predict(ctx, ids, explain.Probe{})
		}
		if err != nil {
			return nil, fmt.Errorf("model %c: %w", 'A'+i, err)
		}
		d.LogP[i], d.Next[i], d.Losses[i] = p.LogP, p.Last, -explain.MeanOf(p.LogP)
	}
	if x, y := len(d.Next[0]), len(d.Next[1]); x != y {
		return nil, fmt.Errorf("found vocabularies of %d and %d tokens, want the same to compare predictions", x, y)
	}
	return d, nil
}

// Figures returns the figures of the difference.
func (d *TextDifference) Figures(tok tokenizer.Tokenizer) []*figure.Figure {
	figures := []*figure.Figure{{Name: "moved-next", Title: "What comes after the text, by A and by B", Columns: 1,
		Frames: []figure.Frame{{Panels: explain.Beside(tok, []string{"A", "B"}, nil, d.Next[0], d.Next[1])}}}}
	if len(d.IDs) < 2 {
		return figures
	}
	text, more := explain.ChangedText(tok, d.IDs, d.LogP[0], d.LogP[1], "A", "B")
	return append([]*figure.Figure{{Name: "moved-text", Title: "Where the predictions differ",
		Caption: fmt.Sprintf("log p of each token by B minus that by A: above 0, B finds it more probable. "+
			"The losses are %.4f and %.4f nats a token.%s", d.Losses[0], d.Losses[1], more),
		Frames: []figure.Frame{{Panels: []figure.Panel{{Text: text}}}}}}, figures...)
}

// RunCurves holds the losses of a training run.
type RunCurves struct {
	Name         string
	Train, Valid Curve
}

// Curve holds losses by step.
type Curve struct{ Step, Loss []float64 }

// CurvesFigure draws the losses of runs side by side.
func CurvesFigure(runs ...RunCurves) *figure.Figure {
	lines := &figure.Lines{}
	for _, r := range runs {
		for _, c := range []struct {
			name   string
			of     Curve
			dashed bool
		}{{"training", r.Train, true}, {"validation", r.Valid, false}} {
			if len(c.of.Step) == 0 {
				continue
			}
			x, y := averaged(c.of.Step), averaged(c.of.Loss)
			lines.Series = append(lines.Series, figure.Series{Name: r.Name + " · " + c.name, X: x, Y: y,
				Dashed: c.dashed, Points: len(x) == 1})
		}
	}
	return &figure.Figure{Name: "moved-curves", Title: "Losses of the runs",
		Caption: "From the metrics.jsonl of both runs. Many steps are shown as means of neighbors.",
		Frames: []figure.Frame{{Panels: []figure.Panel{{X: figure.Axis{Label: "step"},
			Y: figure.Axis{Label: "loss, nats"}, Lines: lines}}}}}
}

// averaged returns means of adjacent numbers, reduced to what can be seen.
func averaged(x []float64) (out []float64) {
	step := (len(x) + figure.MostCells - 1) / figure.MostCells
	for i := 0; i < len(x); i += step {
		out = append(out, explain.MeanOf(x[i:min(i+step, len(x))]))
	}
	return out
}
