package changes

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/explain/figure"
)

const (
	listed      = 40   // parameters in the table
	maxPoles    = 2000 // poles of a layer that are drawn
	kernelsSeen = 2    // channels whose kernels are drawn: those that changed most
)

// Figures returns the figures of the report.
func (r *Report) Figures() []*figure.Figure {
	var figures []*figure.Figure
	if f := r.maps(); f != nil {
		figures = append(figures, f)
	}
	figures = append(figures, r.table())
	if len(r.OnlyA)+len(r.OnlyB)+len(r.Other) > 0 {
		figures = append(figures, r.unlike())
	}
	for _, s := range r.Systems {
		figures = append(figures, r.system(s))
	}
	return figures
}

// maps returns a figure of the changes of the layers' parameters, by layer and kind.
func (r *Report) maps() *figure.Figure {
	var kinds []string
	at := map[string]*Param{}
	key := func(layer int, kind string) string { return fmt.Sprint(layer, " ", kind) }
	for i := range r.Params {
		p := &r.Params[i]
		if p.Layer < 0 {
			continue
		}
		if !slices.Contains(kinds, p.Kind) {
			kinds = append(kinds, p.Kind)
		}
		at[key(p.Layer, p.Kind)] = p
	}
	if len(kinds) == 0 {
		return nil
	}
	values := func(of func(p *Param) float64) *figure.Map {
		return figure.GridOf(shortKinds(kinds), r.Layers, func(kind, layer int) float64 {
			p := at[key(layer, kinds[kind])]
			if p == nil {
				return math.NaN()
			}
			return of(p)
		})
	}
	relative := values(func(p *Param) float64 {
		if math.IsInf(p.Relative, 0) {
			return math.NaN()
		}
		return p.Relative
	})
	angle := values(func(p *Param) float64 { return math.Acos(p.Cosine) * 180 / math.Pi })
	angle.Unit = "degrees"
	norm := values(func(p *Param) float64 {
		if p.Norms[0] == 0 || p.Norms[1] == 0 {
			return math.NaN()
		}
		return math.Log2(p.Norms[1] / p.Norms[0])
	})
	norm.Diverging, norm.Unit = true, "log2"
	axes := func(title string, m *figure.Map) figure.Panel {
		return figure.Panel{Title: title, X: figure.Axis{Label: "layer"}, Y: figure.Axis{Label: "parameter"}, Map: m}
	}
	return &figure.Figure{Name: "moved-parameters", Title: "What moved", Columns: 1,
		Caption: fmt.Sprintf("For each parameter a of A (%s) and b of B (%s): the relative change ‖b - a‖/‖a‖, "+
			"the angle arccos a·b/(‖a‖ ‖b‖), and the change of size log2 ‖b‖/‖a‖, where +1 is twice as large. "+
			"Cells without a color are parameters that one model lacks, or that were 0.", r.Names[0], r.Names[1]),
		Frames: []figure.Frame{{Panels: []figure.Panel{axes("relative change", relative), axes("turn", angle),
			axes("change of the norm", norm)}}}}
}

// shortKinds returns the last two parts of each name, or the full name if two would be equal.
func shortKinds(kinds []string) []string {
	out, times := make([]string, len(kinds)), map[string]int{}
	for i, kind := range kinds {
		parts := strings.Split(kind, ".")
		out[i] = strings.Join(parts[max(0, len(parts)-2):], ".")
		times[out[i]]++
	}
	for i := range out {
		if times[out[i]] > 1 {
			out[i] = kinds[i]
		}
	}
	return out
}

// table lists the parameters that changed most.
func (r *Report) table() *figure.Figure {
	all := slices.Clone(r.Params)
	slices.SortStableFunc(all, func(a, b Param) int { return cmp.Compare(b.Relative, a.Relative) })
	same := 0
	table := &figure.Table{Columns: []string{"parameter", "numbers", "‖b - a‖/‖a‖", "cosine", "‖a‖", "‖b‖"}}
	for _, p := range all {
		if p.Relative == 0 {
			same++
		}
		if len(table.Rows) < listed {
			table.Rows = append(table.Rows, []string{p.Name, fmt.Sprint(p.Count), figure.Number(p.Relative),
				figure.Number(p.Cosine), figure.Number(p.Norms[0]), figure.Number(p.Norms[1])})
		}
	}
	return &figure.Figure{Name: "moved-table", Title: "The parameters that moved most",
		Caption: fmt.Sprintf("Both models have %d parameters of the same shape, %d of them with the same numbers.",
			len(all), same),
		Frames: []figure.Frame{{Panels: []figure.Panel{{Table: table}}}}}
}

// unlike lists what could not be compared.
func (r *Report) unlike() *figure.Figure {
	table := &figure.Table{Columns: []string{"parameter", "why it is not compared"}}
	for _, x := range []struct {
		names []string
		why   string
	}{{r.OnlyA, "only in A"}, {r.OnlyB, "only in B"}, {r.Other, "other shapes in A and B"}} {
		for i, name := range x.names {
			if i == listed {
				table.Rows = append(table.Rows, []string{fmt.Sprintf("and %d more", len(x.names)-i), x.why})
				break
			}
			table.Rows = append(table.Rows, []string{name, x.why})
		}
	}
	return &figure.Figure{Name: "moved-unlike", Title: "Parameters that only one has",
		Frames: []figure.Frame{{Panels: []figure.Panel{{Table: table}}}}}
}

// system returns a figure of the systems of a layer before and after.
func (r *Report) system(s SystemPair) *figure.Figure {
	var panels []figure.Panel
	if len(s.A.Poles) > 0 {
		panels = append(panels, figure.Panel{Title: "poles", X: figure.Axis{Label: "Re A"},
			Y: figure.Axis{Label: "Im A"}, Lines: &figure.Lines{
				Series: []figure.Series{poles("A", s.A.Poles), poles("B", s.B.Poles)}}})
	}
	if len(s.A.Dt) > 0 {
		panels = append(panels, figure.Panel{Title: "dt", X: figure.Axis{Label: "channels, sorted"},
			Y: figure.Axis{Label: "dt", Log: true}, Lines: &figure.Lines{
				Series: []figure.Series{sorted("A", s.A.Dt), sorted("B", s.B.Dt)}}})
		if ratio := (figure.Series{Name: "channels", Points: true}); len(s.A.Dt) == len(s.B.Dt) {
			for i, dt := range s.A.Dt {
				ratio.X, ratio.Y = append(ratio.X, dt), append(ratio.Y, s.B.Dt[i]/dt)
				ratio.Labels = append(ratio.Labels, fmt.Sprintf("channel %d: %.4g, then %.4g", i, dt, s.B.Dt[i]))
			}
			panels = append(panels, figure.Panel{Title: "change of dt", X: figure.Axis{Label: "dt of A", Log: true},
				Y: figure.Axis{Label: "dt of B / dt of A"}, Lines: &figure.Lines{Series: []figure.Series{ratio}}})
		}
	}
	if len(s.A.Tokens) > 0 {
		panels = append(panels, figure.Panel{Title: "time constants", X: figure.Axis{Label: "channels, sorted"},
			Y: figure.Axis{Label: "tokens", Log: true}, Lines: &figure.Lines{
				Series: []figure.Series{sorted("A", s.A.Tokens), sorted("B", s.B.Tokens)}}})
	}
	if len(s.A.Kernel) > 0 {
		panels = append(panels, figure.Panel{Title: "kernels, root mean square of all channels",
			X: figure.Axis{Label: "tokens back"}, Y: figure.Axis{Label: "|K|", Log: true}, Lines: &figure.Lines{
				Series: []figure.Series{taps("A", s.A.Kernel), taps("B", s.B.Kernel)}}})
		if p, ok := s.kernels(); ok {
			panels = append(panels, p)
		}
	}
	return &figure.Figure{Name: fmt.Sprintf("moved-system-%d", s.Layer), Title: "Systems before and after",
		Group: "systems", Pick: r.Layers[s.Layer],
		Caption: "Poles: the diagonal of the continuous A. dt: the step of each channel or head, " +
			"softplus(bias) where it depends on the token. Time constants: 1/(dt·min|Re A|), " +
			"after how many tokens the slowest mode of a channel has fallen to 1/e. Kernels: " +
			"the first taps of the convolution.",
		Frames: []figure.Frame{{Panels: panels}}}
}

// kernels draws the kernels of the channels that changed most. ok is false if there are no kernels, or if the two
// models have different channels.
func (s *SystemPair) kernels() (p figure.Panel, ok bool) {
	a, b := s.A.KernelOf, s.B.KernelOf
	if len(a) != len(b) || len(s.A.Kernel) != len(s.B.Kernel) {
		return p, false
	}
	n := len(a) / len(s.A.Kernel)
	moved := make([]float64, n)
	channels := make([]int, n)
	for i := range a {
		d := float64(b[i]) - float64(a[i])
		moved[i%n] += d * d
	}
	for i := range channels {
		channels[i] = i
	}
	slices.SortStableFunc(channels, func(i, j int) int { return cmp.Compare(moved[j], moved[i]) })
	lines := &figure.Lines{}
	for _, c := range channels[:min(n, kernelsSeen)] {
		if moved[c] == 0 {
			break
		}
		for _, of := range []struct {
			name   string
			k      []float32
			dashed bool
		}{{"A", a, true}, {"B", b, false}} {
			k := make([]float64, len(s.A.Kernel))
			for i := range k {
				k[i] = float64(of.k[i*n+c])
			}
			series := taps(fmt.Sprintf("channel %d, %s", c, of.name), k)
			series.Dashed = of.dashed
			lines.Series = append(lines.Series, series)
		}
	}
	return figure.Panel{Title: "kernels that moved most", X: figure.Axis{Label: "tokens back"},
		Y: figure.Axis{Label: "K"}, Lines: lines}, len(lines.Series) > 0
}

// poles returns points in the complex plane, at most about maxPoles of them.
func poles(name string, all []complex128) figure.Series {
	s := figure.Series{Name: name, Points: true}
	step := (len(all) + maxPoles - 1) / maxPoles
	for i := 0; i < len(all); i += step {
		s.X, s.Y = append(s.X, real(all[i])), append(s.Y, imag(all[i]))
	}
	return s
}

// sorted returns a line through the sorted numbers, thinned to what can be seen.
func sorted(name string, x []float64) figure.Series {
	s := figure.Series{Name: name}
	x = slices.Sorted(slices.Values(x))
	step := (len(x) + figure.MostCells - 1) / figure.MostCells
	for i := 0; i < len(x); i += step {
		s.X, s.Y = append(s.X, float64(i)), append(s.Y, x[i])
	}
	return s
}

// taps returns a line through a kernel.
func taps(name string, k []float64) figure.Series {
	s := figure.Series{Name: name, Y: k}
	for i := range k {
		s.X = append(s.X, float64(i))
	}
	return s
}
