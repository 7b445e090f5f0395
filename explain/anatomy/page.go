package anatomy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
)

// Page returns a page about a model, compared with its earlier state if before is not nil. rate is the number of
// positions in a second, 0 if it is unknown.
func Page(now, before *Report, rate float64) *figure.Page {
	p := &figure.Page{Title: "A model taken apart"}
	both := []*Report{now}
	if before != nil {
		both = append(both, before)
	}
	p.Notes = append(p.Notes, "Decays that depend on the token are those of a short run over "+now.Seen+
		", on the average.")
	p.Figures = append(p.Figures, now.diagram(), now.parameters())
	if len(now.Times) > 0 {
		p.Figures = append(p.Figures, now.times())
	}
	add := func(f *figure.Figure) {
		if f != nil {
			p.Figures = append(p.Figures, f)
		}
	}
	add(overLayers(both, "time-constants", "Time constants",
		"How long the modes of each layer's state last: after -1/ln|ā| tokens a mode has fallen to 1/e.",
		"tokens", func(s *System) []float64 { return s.TimeConstants() }, rate))
	add(overLayers(both, "dt", "Steps dt", "The steps dt with which the continuous systems of the channels are "+
		"sampled. Of selective systems it is softplus(bias).", "dt", func(s *System) []float64 { return s.Dt }, 0))
	p.Figures = append(p.Figures, kernelFigures(both)...)
	p.Figures = append(p.Figures, poleFigures(both)...)
	p.Figures = append(p.Figures, normFigures(both)...)
	return p
}

// diagramWidth is the width of one row of a diagram, in boxes.
const diagramWidth = 8

// drawing places the boxes of a diagram. The residual stream goes to the right. What is added to it is drawn below.
type drawing struct {
	figure.Diagram
	x, y float64
	last string // last box on the stream
}

func (d *drawing) box(id, label, note, kind string, x, y float64, from ...string) {
	d.Nodes = append(d.Nodes, figure.Node{ID: id, Label: label, Note: note, Kind: kind, X: x, Y: y})
	for _, f := range from {
		if f != "" {
			d.Edges = append(d.Edges, figure.Edge{From: f, To: id})
		}
	}
}

// stream appends a box to the stream.
func (d *drawing) stream(id, label, note, kind string) {
	d.box(id, label, note, kind, d.x, d.y, d.last)
	d.last, d.x = id, d.x+1.4
}

// branch appends a norm, a part of the model on the normed stream, and the sum with the stream.
func (d *drawing) branch(id, label, note, kind string, more ...string) {
	from := d.last
	d.box("norm-"+id, "norm", "", "norm", d.x-0.7, d.y+2, append(more, from)...)
	d.box(id, label, note, kind, d.x+0.7, d.y+2, "norm-"+id)
	d.x += 1.4
	d.box("add-"+id, "+", "adds the stream", "add", d.x, d.y, from, id)
	d.last, d.x = "add-"+id, d.x+1.4
}

// diagram returns a figure of the layers in order. Adjacent equal layers are drawn once.
func (a *Report) diagram() *figure.Figure {
	d := &drawing{}
	d.stream("in", "embedding", fmt.Sprintf("width %d", a.Shape.DModel), "embedding")
	shared := ""
	for from := 0; from < len(a.Layers); {
		l, to := a.Layers[from], from+1
		for to < len(a.Layers) && a.Layers[to].Kind == l.Kind && a.Layers[to].MLP == l.MLP {
			to++
		}
		name := fmt.Sprintf("layer %d", from)
		if to > from+1 {
			name = fmt.Sprintf("layers %d–%d", from, to-1)
		}
		if d.x > diagramWidth {
			d.x, d.y = 0, d.y+5.5
		}
		d.stream(fmt.Sprintf("run-%d", from), name, name, "note")
		var more []string
		if l.Shared {
			if shared == "" {
				shared = "shared"
				d.box(shared, "shared block", "attention and an MLP, with weights that several layers share", " shared",
					d.x-0.7, d.y+3.7)
			}
			more = append(more, shared)
		}
		d.branch(fmt.Sprintf("mixer-%d", from), l.Kind, explain.Papers(l.Kind), "mixer", more...)
		if l.MLP != "" {
			d.branch(fmt.Sprintf("mlp-%d", from), l.MLP, "of "+name, "mlp")
		}
		from = to
	}
	d.stream("final", "norm", "", "norm")
	note := "it shares the weights of the embedding"
	if !a.tied {
		note = ""
	}
	d.stream("head", "head", note, "head")
	return &figure.Figure{Name: "architecture", Title: "Architecture",
		Caption: "Each layer adds the output of its mixer on the normed stream, then that of its MLP. " +
			"Equal layers in a row are drawn once.",
		Frames: []figure.Frame{{Panels: []figure.Panel{{Diagram: &d.Diagram}}}}}
}

// layerNames returns the labels for parameters and times: before the layers, each layer, after the layers.
func (a *Report) layerNames() []string {
	names := []string{"embedding"}
	for i, l := range a.Layers {
		names = append(names, fmt.Sprintf("%d %s", i, l.Kind))
	}
	return append(names, "norm and head")
}

// parameters returns a figure of the number of parameters of each kind in each layer.
func (a *Report) parameters() *figure.Figure {
	names := a.layerNames()
	var kinds []string
	values := map[string]figure.Floats{}
	total := 0
	for _, p := range a.Params {
		if values[p.Kind] == nil {
			kinds, values[p.Kind] = append(kinds, p.Kind), make(figure.Floats, len(names))
		}
		at := p.Layer + 1
		if p.Layer < 0 && p.Kind != "embedding" {
			at = len(names) - 1
		}
		values[p.Kind][at] += float64(p.N)
		total += p.N
	}
	bars := &figure.Bars{Names: names, Stack: true, Across: true}
	for _, k := range kinds {
		bars.Series = append(bars.Series, figure.Series{Name: k, Y: values[k]})
	}
	return &figure.Figure{Name: "parameters", Title: "Where the parameters are",
		Caption: fmt.Sprintf("%d parameters, by layer and kind of part. "+
			"Shared parameters count in the first layer that has them.", total),
		Frames: []figure.Frame{{Panels: []figure.Panel{{X: figure.Axis{Label: "parameters"}, Bars: bars}}}}}
}

// times returns a figure of how long the parts take.
func (a *Report) times() *figure.Figure {
	names := a.layerNames()
	kinds := []string{"mixer", "mlp", "other"}
	values := map[string]figure.Floats{}
	for _, k := range kinds {
		values[k] = make(figure.Floats, len(names))
	}
	total := 0.0
	for _, t := range a.Times {
		at, kind := t.Layer+1, t.Name
		if t.Layer < 0 {
			at, kind = len(names)-1, "other"
		}
		ms := t.Time.Seconds() * 1e3
		values[kind][at] += ms
		total += ms
	}
	bars := &figure.Bars{Names: names[1:], Stack: true, Across: true}
	for _, k := range kinds {
		bars.Series = append(bars.Series, figure.Series{Name: k, Y: values[k][1:]})
	}
	return &figure.Figure{Name: "time", Title: "Where the time goes",
		Caption: fmt.Sprintf("Milliseconds of each part in a run over %s on this machine, the least of several: "+
			"%.3g ms in all. A part includes the norm before it, and the first includes the embedding.", a.Seen, total),
		Frames: []figure.Frame{{Panels: []figure.Panel{{X: figure.Axis{Label: "ms"}, Bars: bars}}}}}
}

// overLayers returns a figure of the median and the spread of a quantity of each layer's systems, with a table.
func overLayers(both []*Report, name, title, caption, unit string, of func(*System) []float64,
	rate float64) *figure.Figure {
	lines := &figure.Lines{}
	table := &figure.Table{Columns: []string{"", "layer", "mixer", "part", "10 %", "median", "90 %"}}
	if rate > 0 {
		table.Columns = append(table.Columns, "median (s)")
	}
	for _, a := range both {
		s := figure.Series{Name: a.Name, Points: true}
		for i, l := range a.Layers {
			for k := range l.Systems {
				x := slices.Clone(of(&l.Systems[k]))
				if len(x) == 0 {
					continue
				}
				slices.Sort(x)
				lo, mid, hi := figure.Quantile(x, 0.1), figure.Quantile(x, 0.5), figure.Quantile(x, 0.9)
				row := []string{a.Name, strconv.Itoa(i), l.Kind, l.Systems[k].Part, short(lo), short(mid), short(hi)}
				if rate > 0 {
					row = append(row, short(mid/rate))
				}
				table.Rows = append(table.Rows, row)
				s.X = append(s.X, float64(i))
				for _, v := range []struct {
					to *figure.Floats
					x  float64
				}{{&s.Y, mid}, {&s.Low, lo}, {&s.High, hi}} {
					if v.x <= 0 || math.IsInf(v.x, 0) {
						v.x = math.NaN() // cannot be shown on a logarithmic axis
					}
					*v.to = append(*v.to, v.x)
				}
			}
		}
		if len(s.X) > 0 {
			lines.Series = append(lines.Series, s)
		}
	}
	if len(lines.Series) == 0 {
		return nil
	}
	return &figure.Figure{Name: name, Title: title, Caption: caption + " Points are medians, " +
		"bands 10 to 90 % of the channels. Infinite values are only in the table.",
		Frames: []figure.Frame{{Panels: []figure.Panel{
			{X: figure.Axis{Label: "layer"}, Y: figure.Axis{Label: unit, Log: true}, Lines: lines}, {Table: table}}}}}
}

// short formats a number for a table.
func short(x float64) string {
	if math.IsInf(x, 0) {
		return "never"
	}
	return figure.Number(x)
}

// shortNames removes prefixes that most names of parameters have.
func shortNames(names []string) (out []string) {
	for _, name := range names {
		out = append(out, strings.ReplaceAll(strings.TrimPrefix(name, "mixer."), "kernel.kernel.", "kernel."))
	}
	return out
}

// normFigures returns figures of the sizes of the parameters, and of their changes in training.
func normFigures(both []*Report) (all []*figure.Figure) {
	now := both[0]
	var rows []string
	for _, l := range now.Layers {
		for _, p := range l.Norms {
			if !slices.Contains(rows, p.Name) {
				rows = append(rows, p.Name)
			}
		}
	}
	of := func(a *Report) (m *figure.Map) {
		m = &figure.Map{Rows: len(rows), Cols: len(a.Layers), RowNames: shortNames(rows), Log: true, Unit: "RMS"}
		for i := range a.Layers {
			m.ColNames = append(m.ColNames, strconv.Itoa(i))
		}
		for _, name := range rows {
			for _, l := range a.Layers {
				v := math.NaN()
				for _, p := range l.Norms {
					if p.Name == name {
						v = p.RMS
					}
				}
				m.Values = append(m.Values, v)
			}
		}
		return m
	}
	x, y := figure.Axis{Label: "layer"}, figure.Axis{Label: "parameter"}
	panels := []figure.Panel{{Title: now.Name, X: x, Y: y, Map: of(now)}}
	caption := "The root mean square of each parameter in each layer."
	if len(both) > 1 && len(both[1].Layers) == len(now.Layers) {
		ratio, old := of(now), of(both[1])
		ratio.Log, ratio.Diverging, ratio.Unit = false, true, "log2 of the ratio"
		most := 0.0
		for i := range ratio.Values {
			v := math.Log2(ratio.Values[i] / old.Values[i])
			if ratio.Values[i] = v; math.IsInf(v, 0) || math.IsNaN(v) {
				ratio.Values[i] = math.NaN()
				continue
			}
			most = max(most, math.Abs(v))
		}
		ratio.Min, ratio.Max = -most, most
		panels = append(panels, figure.Panel{Title: "Ratio to the earlier model", X: x, Y: y, Map: ratio})
		caption += " Right: the change by training. 1 is twice as large as before, -1 half."
	}
	return []*figure.Figure{{Name: "parameter-norms", Title: "How large the parameters are", Caption: caption,
		Frames: []figure.Frame{{Panels: panels}}}}
}
