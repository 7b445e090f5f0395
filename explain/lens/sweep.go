package lens

import (
	"context"
	"fmt"
	"strings"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// SweepReport measures the effect of ablating each of several parts.
type SweepReport struct {
	IDs   []int32
	Names []string // names of the parts
	// Change[p][i] is log p(x_{i+1}) without part p, minus that of the whole model. It is negative if the part helps.
	Change [][]float64
	// Base contains the log-probabilities of the whole model.
	Base []float64
}

// Sweep reads ids once unchanged, and once for each part with that part replaced by zero.
func Sweep(ctx context.Context, g *explain.Language, ids []int32, parts []explain.Target,
	progress func(done, total int)) (*SweepReport,
	error) {
	if err := g.Check(ids); err != nil {
		return nil, err
	}
	whole := explain.Probe{}
	streams := g.KeepStreams(&whole, 0, len(ids)) // layers below a part are the same with and without it
	base, err := g.Predict(ctx, ids, whole)
	if err != nil {
		return nil, err
	}
	rep := &SweepReport{IDs: ids, Base: base.LogP}
	for i, t := range parts {
		w := explain.Probe{From: t.Layer, Streams: streams}
		if err := ablate(ctx, g, ids, t, Changes{}, &w); err != nil {
			return nil, fmt.Errorf("ablate %s: %w", t, err)
		}
		p, err := g.Predict(ctx, ids, w)
		if err != nil {
			return nil, fmt.Errorf("ablate %s: %w", t, err)
		}
		change := make([]float64, len(p.LogP))
		for j, x := range p.LogP {
			change[j] = x - base.LogP[j]
		}
		name := g.LayerName(t.Layer)
		if t.Part == explain.HeadPart || t.Part == explain.ChannelPart {
			name = strings.TrimSpace(fmt.Sprintf("%s %s %d", t.Mixer, t.Part, t.Index))
		}
		rep.Names, rep.Change = append(rep.Names, name), append(rep.Change, change)
		if progress != nil {
			progress(i+1, len(parts))
		}
	}
	return rep, nil
}

// Figures draws the report. name is the name of the figure.
func (r *SweepReport) Figures(name, of string, tok tokenizer.Tokenizer) []*figure.Figure {
	if len(r.Base) == 0 {
		return nil
	}
	names := make([]string, len(r.Base))
	for i := range names {
		names[i] = fmt.Sprintf("%s → %s", explain.TokenText(tok, r.IDs[i]), explain.TokenText(tok, r.IDs[i+1]))
	}
	mp := figure.GridOf(r.Names, names, func(p, i int) float64 { return r.Change[p][i] })
	mp.Unit, mp.Diverging = "nats", true
	bars := &figure.Bars{Names: mp.RowNames, Across: true, Series: []figure.Series{{Name: "change of log p"}}}
	for i := 0; i < len(r.Names); i += mp.RowStep {
		group := r.Change[i:min(i+mp.RowStep, len(r.Names))]
		sum := 0.0
		for _, x := range group {
			sum += explain.MeanOf(x)
		}
		bars.Series[0].Y = append(bars.Series[0].Y, sum/float64(len(group)))
	}
	what := fmt.Sprintf("one %s adds zero (zero ablation)", of)
	if of == string(explain.StatePart) {
		what = "one layer carries nothing from token to token"
	}
	return []*figure.Figure{{Name: name, Title: "Without one " + of + " after the other", Columns: 1,
		Caption: "The change of log p of the token that really comes next, where " + what + ", at each token and " +
			"in the mean. Below 0 the " + of + " helps.",
		Frames: []figure.Frame{{Panels: []figure.Panel{
			{Title: "each token", X: figure.Axis{Label: "token → next token"}, Y: figure.Axis{Label: "without"},
				Map: mp},
			{Title: "mean over the text", X: figure.Axis{Label: "change of log p, nats"}, Bars: bars}}}}}}
}
