package memory

import (
	"fmt"
	"math"
	"strconv"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
)

// Page returns the page about a memory. names are the texts of the tokens.
func (m *Report) Page(names []string) *figure.Page {
	p := &figure.Page{Title: "What the states remember", Notes: m.Notes}
	p.Figures = append(p.Figures, m.halfLives(), m.table())
	p.Figures = append(p.Figures, m.left(names)...)
	p.Figures = append(p.Figures, m.text(names)...)
	p.Figures = append(p.Figures, m.overTime("written", "What each token wrote", names,
		func(x *Part) []float64 { return x.Written }, "The norm |w_t| of what each token wrote into the state of "+
			"each layer, w_t = S_t - Φ_t S_{t-1}, over its mean in that layer. "+
			"Above 1 it wrote more than the average.")...)
	p.Figures = append(p.Figures, m.overTime("norms", "How large the states are", names,
		func(x *Part) []float64 { return x.Norm }, "The norm |S_t| of the state after each token, "+
			"over its mean in that layer. A state that grows to the end forgets little.")...)
	p.Figures = append(p.Figures, m.readOuts()...)
	p.Figures = append(p.Figures, m.channels(names)...)
	p.Figures = append(p.Figures, m.playback(names)...)
	return p
}

// title returns the name of a part.
func (p *Part) title() string {
	return fmt.Sprintf("layer %d · %s · %s", p.Layer, p.Mixer, p.Name)
}

// key returns the title in a form for the name of a figure.
func (p *Part) key() string { return fmt.Sprintf("%d-%s", p.Layer, figure.Slug(p.Name)) }

// main returns the part with the longest reach of each layer.
func (m *Report) main() []*Part {
	var out []*Part
	for _, p := range m.Parts {
		if len(out) == 0 || out[len(out)-1].Layer != p.Layer {
			out = append(out, p)
		}
	}
	return out
}

// shown returns a half-life for a page: an infinite one ends at the border of the picture.
func shown(x, most float64) float64 { return min(x, most) }

// halfLives returns the figure of the half-lives of all layers.
func (m *Report) halfLives() *figure.Figure {
	most := 1.0
	for _, p := range m.Parts {
		for _, h := range p.HalfLives {
			if !math.IsInf(h, 0) {
				most = max(most, h)
			}
		}
	}
	most = max(most, float64(len(m.Tokens))) * 2
	byPart := map[string]*figure.Series{}
	var order []string
	var curves []figure.Series
	for _, p := range m.Parts {
		if len(p.HalfLives) == 0 {
			continue
		}
		s := byPart[p.Name]
		if s == nil {
			s = &figure.Series{Name: p.Name, Points: true}
			byPart[p.Name], order = s, append(order, p.Name)
		}
		s.X = append(s.X, float64(p.Layer))
		s.Y = append(s.Y, shown(figure.Quantile(p.HalfLives, 0.5), most))
		s.Low = append(s.Low, shown(figure.Quantile(p.HalfLives, 0.1), most))
		s.High = append(s.High, shown(figure.Quantile(p.HalfLives, 0.9), most))
	}
	for _, p := range m.main() {
		curve := figure.Series{Name: p.title()}
		for i := range 65 {
			if n := len(p.HalfLives); n > 1 {
				curve.X = append(curve.X, float64(i)/64*100)
				curve.Y = append(curve.Y, max(1e-3, shown(p.HalfLives[i*(n-1)/64], most)))
			}
		}
		if curve.X != nil {
			curves = append(curves, curve)
		}
	}
	lines := &figure.Lines{}
	for _, name := range order {
		lines.Series = append(lines.Series, *byPart[name])
	}
	panels := []figure.Panel{{
		Title: "By layer: median, and 10 to 90 % of the channels", X: figure.Axis{Label: "layer"},
		Y: figure.Axis{Label: "half-life (tokens)", Log: true}, Lines: lines,
	}}
	if len(curves) > 0 {
		panels = append(panels, figure.Panel{
			Title: "By channel, the shortest first", X: figure.Axis{Label: "channels (%)"},
			Y:     figure.Axis{Label: "half-life (tokens)", Log: true},
			Lines: &figure.Lines{Series: figure.Some(curves, 12)},
		})
	}
	return &figure.Figure{
		Name: "half-lives", Title: "Half-lives",
		Caption: fmt.Sprintf("After how many tokens half of what was written into a channel is left, by norm. "+
			"Decays that depend on the token count with their mean over this text, ln 2 / mean(-ln a). "+
			"What is stored for a number of tokens counts with that number. What never halves is drawn at %.3g.", most),
		Frames: []figure.Frame{{Panels: panels}},
	}
}

// table lists the parts of all states.
func (m *Report) table() *figure.Figure {
	t := &figure.Table{Columns: []string{"layer", "mixer", "part", "what happens to it at a token", "numbers",
		"half-life 10 %", "median", "90 %"}}
	for _, p := range m.Parts {
		numbers := strconv.Itoa(p.Numbers)
		if p.rows {
			numbers += " a token"
		}
		row := []string{strconv.Itoa(p.Layer), p.Mixer, p.Name, p.Rule, numbers}
		for _, q := range []float64{0.1, 0.5, 0.9} {
			h := figure.Quantile(p.HalfLives, q)
			switch {
			case math.IsNaN(h):
				row = append(row, "–")
			case math.IsInf(h, 0):
				row = append(row, "never")
			default:
				row = append(row, figure.Number(h))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return &figure.Figure{
		Name: "parts", Title: "The parts of the states",
		Caption: "Each part S follows S_t = Φ_t S_{t-1} + w_t. Φ was found by experiment: " +
			"a part was set to several values, and their changes at a token were compared.",
		Frames: []figure.Frame{{Panels: []figure.Panel{{Table: t}}}},
	}
}

// left returns figures of what is left of each token, for each part.
func (m *Report) left(names []string) (all []*figure.Figure) {
	for _, p := range m.Parts {
		if !p.Linear() || p.reach == 0 {
			continue
		}
		cells := cellNames(names, p.Step)
		values := make(figure.Floats, len(p.Left))
		for i, v := range p.Left {
			values[i] = math.Round(float64(v)*1e3) / 1e3 // fewer digits in a file
		}
		all = append(all, &figure.Figure{
			Name: "left-" + p.key(), Group: "left", Pick: p.title(), Title: "What is left of each token",
			Caption: fmt.Sprintf("Row t, column s: "+
				"the share |Φ_t … Φ_{s+1} w_s| / |w_s| that is left after token t of what token s wrote into the "+
				"state. The part %q is %s. A token fades down its column.", p.Name, p.Rule),
			Source: explain.Papers(p.Mixer),
			Frames: []figure.Frame{{Panels: []figure.Panel{{
				X: figure.Axis{Label: "token s that wrote"}, Y: figure.Axis{Label: "token t later"},
				Map: &figure.Map{Rows: p.Cells, Cols: p.Cells, Values: values, Max: 1, Unit: "share left",
					RowNames: cells, ColNames: cells, RowStep: p.Step, ColStep: p.Step,
					RowClick: "what is left of the tokens before"},
			}}}},
		})
	}
	return all
}

// cellNames returns the names of cells of step tokens.
func cellNames(names []string, step int) (out []string) {
	for i := 0; i < len(names); i += step {
		if end := min(len(names), i+step); step > 1 {
			out = append(out, fmt.Sprintf("%d–%d %s…%s", i, end-1, names[i], names[end-1]))
		} else {
			out = append(out, fmt.Sprintf("%d %s", i, names[i]))
		}
	}
	return out
}

// text returns figures of the tokens: what is left of them at the end, and at any other token that is selected.
func (m *Report) text(names []string) (all []*figure.Figure) {
	for _, p := range m.main() {
		if !p.Linear() || p.HalfLives != nil && p.HalfLives[0] == math.Inf(1) && len(p.HalfLives) == 1 {
			continue // everything is left
		}
		x := &figure.Text{Tokens: names, Max: 1, Unit: "share left", Mark: len(names) - 1}
		for t := range names {
			x.Values = append(x.Values, float64(p.Left[(p.Cells-1)*p.Cells+t/p.Step]))
		}
		if p.Step == 1 && len(names) <= figure.MostLinks {
			links := make(figure.Floats, len(p.Left))
			for i, v := range p.Left {
				links[i] = math.Round(float64(v)*1e3) / 1e3
			}
			x.Links = &figure.Map{Rows: p.Cells, Cols: p.Cells, Values: links, Max: 1}
		}
		all = append(all, &figure.Figure{
			Name: "text-" + p.key(), Group: "text", Pick: p.title(), Title: "What is left in the text",
			Caption: "The share of what each token wrote that is left in the state at the end of the text, " +
				"or at the token that you select.",
			Frames: []figure.Frame{{Panels: []figure.Panel{{Text: x}}}},
		})
	}
	return all
}

// overTime returns a figure of a quantity of each part at each token, if it is known for any. Keys and values have no
// norm that grows or fades.
func (m *Report) overTime(name, title string, names []string, of func(*Part) []float64,
	caption string) []*figure.Figure {
	step := (len(names) + 511) / 512
	x := &figure.Map{ColNames: cellNames(names, step), ColStep: step, Unit: "of the mean"}
	x.Cols = len(x.ColNames)
	for _, p := range m.Parts {
		v := of(p)
		mean, n := 0.0, 0
		for _, y := range v {
			if !math.IsNaN(y) {
				mean, n = mean+y, n+1
			}
		}
		if n < len(v)/2 || mean == 0 {
			continue // unknown for most tokens
		}
		x.RowNames = append(x.RowNames, p.title())
		for from := 0; from < len(v); from += step {
			sum, k := 0.0, 0
			for _, y := range v[from:min(len(v), from+step)] {
				if !math.IsNaN(y) {
					sum, k = sum+y, k+1
				}
			}
			x.Values = append(x.Values, math.Round(sum/float64(k)/mean*float64(n)*1e4)/1e4)
		}
	}
	if x.Rows = len(x.RowNames); x.Rows == 0 {
		return nil
	}
	panel := figure.Panel{X: figure.Axis{Label: "token"}, Y: figure.Axis{Label: "layer"}, Map: x}
	return []*figure.Figure{{
		Name: name, Title: title, Caption: caption, Frames: []figure.Frame{{Panels: []figure.Panel{panel}}},
	}}
}
