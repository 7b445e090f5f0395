package memory

import (
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/explain/figure"
)

// channels returns figures of the sizes of the channels of each layer over time.
func (m *Report) channels(names []string) (all []*figure.Figure) {
	for _, p := range m.main() {
		if p.Rows == 0 {
			continue
		}
		values := make(figure.Floats, len(p.Heat))
		for i, v := range p.Heat {
			values[i] = float64(v)
		}
		all = append(all, &figure.Figure{
			Name: "channels-" + p.key(), Group: "channels", Pick: p.title(), Title: "The channels over time",
			Caption: fmt.Sprintf("How large the channels of the state are after each token: "+
				"the norms of %d groups of %d channels.", p.Rows, p.Channels),
			Frames: []figure.Frame{{Panels: []figure.Panel{{
				X: figure.Axis{Label: "token"}, Y: figure.Axis{Label: "channels"},
				Map: &figure.Map{Rows: p.Rows, Cols: p.Cells, Values: values, ColNames: cellNames(names, p.Step),
					ColStep: p.Step, RowStep: max(1, p.Channels/p.Rows), Log: true},
			}}}},
		})
	}
	return all
}

// playback returns figures that play the states as the text is read.
func (m *Report) playback(names []string) (all []*figure.Figure) {
	for _, p := range m.main() {
		if len(p.Shots) == 0 {
			continue
		}
		var sizes []float64
		for _, s := range p.Shots {
			for _, v := range s {
				if x := math.Abs(float64(v)); x <= math.MaxFloat32 {
					sizes = append(sizes, x)
				}
			}
		}
		if len(sizes) == 0 {
			continue // no finite number
		}
		slices.Sort(sizes)
		most := figure.Quantile(sizes, 0.99) // a few numbers are often much larger than all others
		f := &figure.Figure{
			Name: "live-" + p.key(), Group: "live", Pick: p.title(), Title: "The state as the text passes",
			Caption: fmt.Sprintf("%d of the %d channels of the state and %d of the %d numbers of each, "+
				"after some tokens.", p.ShotRows, p.Channels, p.ShotCols, p.Numbers/p.Channels),
		}
		for i, s := range p.Shots {
			values := make(figure.Floats, len(s))
			for k, v := range s {
				values[k] = float64(v)
			}
			f.Frames = append(f.Frames, figure.Frame{
				Label: fmt.Sprintf("token %d · %s", p.ShotAt[i], names[p.ShotAt[i]]),
				Panels: []figure.Panel{{X: figure.Axis{Label: "number"}, Y: figure.Axis{Label: "channel"},
					Map: &figure.Map{Rows: p.ShotRows, Cols: p.ShotCols, Values: values, Diverging: true,
						Min: -most, Max: most}}},
			})
		}
		all = append(all, f)
	}
	return all
}

// readOuts returns the figure of what can be read from the states.
func (m *Report) readOuts() []*figure.Figure {
	if len(m.Reads) == 0 {
		return nil
	}
	r2, accuracy := &figure.Lines{}, &figure.Lines{}
	reads := figure.Some(m.Reads, 12)
	for _, r := range reads {
		var ages figure.Floats
		for _, a := range r.Ages {
			ages = append(ages, float64(a))
		}
		name := fmt.Sprintf("layer %d · %s", r.Layer, r.Mixer)
		r2.Series = append(r2.Series, figure.Series{Name: name, X: ages, Y: floored(r.R2)})
		accuracy.Series = append(accuracy.Series, figure.Series{Name: name, X: ages, Y: slices.Clone(r.Accuracy)})
	}
	first := m.Reads[0]
	x := accuracy.Series[0].X
	accuracy.Series = append(accuracy.Series, figure.Series{Name: "chance", X: x, Y: slices.Clone(first.Chance),
		Dashed: true})
	r2.Series = append(r2.Series, figure.Series{Name: "chance: the mean", X: x, Y: make(figure.Floats, len(x)),
		Dashed: true})
	caption := "A ridge regression from the state after token t to the embedding of token t - age. " +
		"It is fitted on the first 60 % of the text, its λ chosen on the next 10 %, and scored on the last 30 %. " +
		"Longer texts let it find more."
	if first.Features < first.Numbers {
		caption += fmt.Sprintf(" The %d numbers of a state are first mixed into %d by sums with random signs, "+
			"so the result is a lower bound.", first.Numbers, first.Features)
	}
	return []*figure.Figure{{
		Name: "read-out", Title: "What a linear map can read of the past", Caption: caption,
		Frames: []figure.Frame{{Panels: []figure.Panel{
			{Title: "Share of the variance of the embeddings, R²", X: figure.Axis{Label: "age (tokens)"},
				Y: figure.Axis{Label: "R²"}, Lines: r2},
			{Title: "How often the nearest embedding is that of the token", X: figure.Axis{Label: "age (tokens)"},
				Y: figure.Axis{Label: "accuracy", Max: 1}, Lines: accuracy},
		}}},
	}}
}

// floored replaces values below -0.25 by -0.25, so that a curve stays visible.
func floored(x []float64) figure.Floats {
	out := make(figure.Floats, len(x))
	for i, v := range x {
		out[i] = max(v, -0.25)
		if math.IsNaN(v) {
			out[i] = v
		}
	}
	return out
}
