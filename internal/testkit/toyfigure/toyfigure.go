// Package toyfigure provides a page with figures of every kind, for tests of code that draws them.
package toyfigure

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/explain/figure"
)

// Hostile holds texts that would become markup, reverse the page's direction or widen it, if a page did not prevent
// that.
var Hostile = []string{
	`</script><script>window.hacked=1</script>`, `<img src=x onerror="window.hacked=1">`, "\u202eback", "bell\a\x00",
	"\n", "\t", " whale", "", "日本語", "עברית", "👩‍🚀", "half\xe2\x82", strings.Repeat("x", 3000), "&amp;",
	`"quoted" 'too'`,
}

// Page returns a page with a figure for each kind of panel, one with frames and a group of three.
func Page() *figure.Page {
	tokens := strings.SplitAfter("Call me Ishmael. Some years ago, never mind how long precisely,\nhaving little or "+
		"no money in my purse, I thought I would sail about a little and see the watery part of the world.", " ")
	p := &figure.Page{
		Title: "A page of every kind", Subtitle: "made by internal/testkit/toyfigure",
		Command: "hippo explain show page.json", Notes: []string{"The map of layer 2 sums up 4 tokens in a cell."},
		Figures: []*figure.Figure{
			{Name: "kernels", Title: "Kernels", Caption: "K[k] = C Abar^k Bbar of four channels.",
				Source: "arXiv:2212.14052", Frames: []figure.Frame{{Panels: []figure.Panel{kernels(), poles()}}}},
		},
	}
	for i := range 3 {
		m := influence(tokens, i)
		p.Figures = append(p.Figures, &figure.Figure{
			Name: fmt.Sprintf("influence-%d", i), Title: fmt.Sprintf("Influence in layer %d", i),
			Group: "influence", Pick: fmt.Sprintf("layer %d · h3", i), Caption: "y = M u: what each token drew on.",
			Frames: []figure.Frame{{Panels: []figure.Panel{{Title: "M", X: figure.Axis{Label: "token read"},
				Y: figure.Axis{Label: "token written"}, Map: m}}}},
		})
	}
	p.Figures = append(p.Figures,
		&figure.Figure{Name: "state", Title: "A state as tokens are read", Frames: states(tokens)},
		&figure.Figure{Name: "tokens", Title: "Surprise", Frames: []figure.Frame{{Panels: []figure.Panel{
			{Title: "Each token", Text: surprise(tokens)},
			{Title: "Whatever a token may be",
				Text: &figure.Text{Tokens: slices.Clone(Hostile), Values: ramp(len(Hostile)), Mark: -1}},
		}}}},
		&figure.Figure{Name: "bars", Title: "Parts", Columns: 2, Frames: []figure.Frame{{Panels: bars()}}},
		&figure.Figure{Name: "architecture", Title: "Architecture", Frames: []figure.Frame{{Panels: []figure.Panel{
			{Diagram: architecture()},
			{Title: "Layers", Table: &figure.Table{Columns: []string{"layer", "mixer", "parameters", "share"},
				Rows: [][]string{{"0", "h3", "1,234", "12.5 %"}, {"1", "attention", "98", "0.1 %"},
					{"2", Hostile[0], "—", "—"}}}},
		}}}},
	)
	return p
}

func ramp(n int) figure.Floats {
	out := make(figure.Floats, n)
	for i := range out {
		out[i] = float64(i) / float64(max(n-1, 1))
	}
	return out
}

func kernels() figure.Panel {
	l := &figure.Lines{At: []float64{40}}
	for c := range 4 {
		s := figure.Series{Name: fmt.Sprintf("channel %d", c), Dashed: c == 2, Steps: c == 3}
		for k := range 200 {
			y := math.Exp(-float64(k)/float64(20*(c+1))) * math.Cos(float64(k)/float64(4+3*c))
			if c == 1 && k > 90 && k < 110 {
				y = math.NaN()
			}
			s.X, s.Y = append(s.X, float64(k)), append(s.Y, y)
			if c == 0 {
				s.Low, s.High = append(s.Low, y-.1), append(s.High, y+.1)
			}
		}
		l.Series = append(l.Series, s)
	}
	return figure.Panel{Title: "In time", X: figure.Axis{Label: "lag, tokens"}, Y: figure.Axis{Label: "K"}, Lines: l}
}

func poles() figure.Panel {
	s := figure.Series{Name: "poles", Points: true}
	for n := range 32 {
		r, a := 1-.4*float64(n%7)/7, math.Pi*float64(n)/16
		s.X, s.Y = append(s.X, r*math.Cos(a)), append(s.Y, r*math.Sin(a))
		s.Labels = append(s.Labels, fmt.Sprintf("state %d", n))
	}
	return figure.Panel{Title: "Poles", Square: true, X: figure.Axis{Label: "real"}, Y: figure.Axis{Label: "imaginary"},
		Lines: &figure.Lines{Series: []figure.Series{s}, Circle: true}}
}

func influence(tokens []string, layer int) *figure.Map {
	n := len(tokens)
	m := &figure.Map{Rows: n, Cols: n, RowNames: tokens, ColNames: tokens, Diverging: layer < 2, Log: layer == 2,
		Unit: "share", RowClick: "What this token drew on"}
	for t := range n {
		for s := range n {
			v := math.NaN()
			if s <= t {
				v = math.Exp(-float64(t-s)/float64(3*(layer+1))) * math.Cos(float64(t-s)*float64(2-layer))
			}
			m.Values = append(m.Values, v)
		}
	}
	return m
}

func states(tokens []string) []figure.Frame {
	var frames []figure.Frame
	for t, token := range tokens {
		m := &figure.Map{Rows: 8, Cols: 16}
		s := figure.Series{Name: "left"}
		for i := range m.Rows * m.Cols {
			m.Values = append(m.Values, math.Sin(float64(i*(t+1))/20)*math.Exp(-float64(i)/60))
		}
		for k := range t + 1 {
			s.X, s.Y = append(s.X, float64(k)), append(s.Y, math.Pow(2, -float64(t-k)/4))
		}
		frames = append(frames, figure.Frame{Label: fmt.Sprintf("token %d · %s", t, token), Panels: []figure.Panel{
			{Title: "State", X: figure.Axis{Label: "channel"}, Y: figure.Axis{Label: "state"}, Map: m},
			{Title: "Left of each token", X: figure.Axis{Label: "token", Max: float64(len(tokens))},
				Y:     figure.Axis{Label: "share", Log: true, Min: 1e-3, Max: 1},
				Lines: &figure.Lines{Series: []figure.Series{s}}},
		}})
	}
	return frames
}

func surprise(tokens []string) *figure.Text {
	n := len(tokens)
	t := &figure.Text{Tokens: tokens, Mark: 2, Unit: "nats", Links: &figure.Map{Rows: n, Cols: n, Unit: "share"}}
	for i := range n {
		t.Values = append(t.Values, math.Abs(math.Sin(float64(i)*1.7))*6)
		t.Notes = append(t.Notes, fmt.Sprintf("expected: the\nnote %d", i))
		for j := range n {
			t.Links.Values = append(t.Links.Values, math.Exp(-math.Abs(float64(i-j))/3))
		}
	}
	return t
}

func bars() []figure.Panel {
	names := []string{"embedding", "h3", "mlp", "norms", "head"}
	time := []figure.Series{{Name: "forward", Y: figure.Floats{1, 5, 4, .5, 2}},
		{Name: "backward", Y: figure.Floats{2, 9, 7, 1, math.NaN()}}}
	return []figure.Panel{
		{Title: "Time", Y: figure.Axis{Label: "ms"}, Bars: &figure.Bars{Names: names, Series: time}},
		{Title: "Together", Y: figure.Axis{Label: "ms"}, Bars: &figure.Bars{Names: names, Series: time, Stack: true}},
		{Title: "With long names", X: figure.Axis{Label: "change"}, Bars: &figure.Bars{Across: true,
			Names:  []string{"layers.0.mixer.kernel.log_dt", "layers.1.mixer.kernel.A_real", "lm_head.weight"},
			Series: []figure.Series{{Name: "norm", Y: figure.Floats{-1.5, .5, 3}}}}},
	}
}

func architecture() *figure.Diagram {
	d := &figure.Diagram{}
	for i, n := range []struct{ id, label, kind string }{{"in", "tokens", "io"},
		{"embed", "embedding\n(50257, 768)", "embedding"}, {"norm", "norm", "norm"},
		{"mixer", "H3\nshift · diagonal", "mixer"}, {"mlp", "MLP", "mlp"}, {"out", "logits", "io"}} {
		d.Nodes = append(d.Nodes, figure.Node{ID: n.id, Label: n.label, Kind: n.kind, Y: float64(i),
			Note: "a note about " + n.id})
		if i > 0 {
			d.Edges = append(d.Edges, figure.Edge{From: d.Nodes[i-1].ID, To: n.id})
		}
	}
	d.Nodes = append(d.Nodes, figure.Node{ID: "state", Label: "state", Kind: "state", X: 1.4, Y: 3})
	d.Edges = append(d.Edges, figure.Edge{From: "mixer", To: "state", Label: "kept"},
		figure.Edge{From: "embed", To: "mlp"})
	return d
}
