package theory

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var shiftView = View{
	Name:  "shift",
	Short: "The shift SSM of H3: a register that holds the last inputs",
	Long: `Shows the state of H3's shift SSM while a signal passes. Its matrix moves every number of the state one place
on:

  x_k = shift(x_{k-1}) + B u_k,  y_k = C x_k,  kernel K_j = Σ_i B_i C_{i+j}

With B = (1, 0, ..., 0) the state is the last n inputs, newest first, and y their dot product with C: a short
convolution. C here reads the input of --delay steps ago. H3, arXiv:2212.14052, §3.1.`,
	Example: `  hippo explain ssm shift
  hippo explain ssm shift --n 8 --delay 5 --signal square`,
	New: func() Options {
		return &ShiftOptions{SignalOptions: SignalOptions{Signal: "sum", Length: 32, Turns: 2, Seed: 1}, N: 6, Delay: 2}
	},
}

// ShiftOptions holds the options of the view shift.
type ShiftOptions struct {
	SignalOptions
	N     int `json:"n" min:"1" max:"64" help:"places in the register"`
	Delay int `json:"delay" min:"0" max:"63" help:"which place is read: the input of so many steps ago"`
}

// Page returns the page with the register at each step.
func (o *ShiftOptions) Page(context.Context) (*figure.Page, error) {
	s, err := o.take()
	if err != nil {
		return nil, err
	}
	if o.Delay >= o.N {
		return nil, fmt.Errorf("delay: found %d, want less than the %d places of the register", o.Delay, o.N)
	}
	m := &ssm.Shift{B: ssm.Delta(0, o.N), C: ssm.Delta(o.Delay, o.N)}
	l := len(s.u)
	page := &figure.Page{
		Title:    "The shift SSM: a register",
		Subtitle: fmt.Sprintf("signal: %s, %d samples; %d places, place %d is read", s.name, l, o.N, o.Delay),
		Notes:    s.notes,
	}
	f := &figure.Figure{Name: "register", Title: "The register while the signal passes",
		Caption: "At each step everything moves on by one place, the last number falls out, " +
			"and the newest input enters at place 0. The output is what stands at the place that C reads.",
		Source: "H3, arXiv:2212.14052, §3.1"}
	lo, hi := bounds(s.u, []float64{0})
	moments := map[int]bool{}
	for _, k := range evenly(l, mostPoints) {
		moments[k] = true
	}
	if l > mostPoints {
		page.Notes = append(page.Notes, fmt.Sprintf("%d of %d steps are shown.", mostPoints, l))
	}
	x := make([]float64, o.N)
	y := make([]float64, l)
	states := &figure.Map{Rows: o.N, Diverging: true, RowNames: texts(o.N, 0, 1)}
	var columns [][]float64
	for k, v := range s.u {
		y[k] = m.Step(x, v)
		if !moments[k] {
			continue
		}
		state := append(figure.Floats(nil), x...)
		columns = append(columns, state)
		states.ColNames = append(states.ColNames, fmt.Sprint(k))
		from, to := max(0, k-mostPoints/2), min(l, max(0, k-mostPoints/2)+mostPoints)
		input := picked("u", s.u, span(from, to))
		input.Points = l <= 64
		before := lines("signal and output", "sample", "", input, stepped(picked("y", y, span(from, k+1))))
		before.Lines.At = []float64{float64(k)}
		before.Y.Min, before.Y.Max = lo, hi
		register := figure.Panel{Title: "register", X: figure.Axis{Label: "steps ago"},
			Y:    figure.Axis{Label: "x_i", Min: lo, Max: hi},
			Bars: &figure.Bars{Names: texts(o.N, 0, 1), Series: []figure.Series{{Name: "x_i", Y: state}}}}
		f.Frames = append(f.Frames, figure.Frame{Label: fmt.Sprintf("step %d: in %.3g, out %.3g", k, v, y[k]),
			Panels: []figure.Panel{before, register}})
	}
	states.Cols = len(columns)
	for i := range o.N {
		for _, c := range columns {
			states.Values = append(states.Values, c[i])
		}
	}
	kernel := m.Kernel(o.N + 4)
	apart := floats.Distance(ssm.Convolve(m.Kernel(l), s.u), y, math.Inf(1))
	page.Figures = []*figure.Figure{f,
		still("states", "The register over time",
			"A column for each step. Every input moves down the diagonal until it falls out: "+
				"this is the matrix of a delay.", "", mapPanel("register", "step", "place", states)),
		still("kernel", "As a convolution", fmt.Sprintf("K_j = Σ_i B_i C_{i+j}: a delay of %d. "+
			"The convolution with it and the register differ by at most %.1e.", o.Delay, apart), "", lines("kernel",
			"lag", "", stepped(line("K", kernel))))}
	return page, nil
}

// span returns from, from+1, ..., to-1.
func span(from, to int) []int {
	at := make([]int, to-from)
	for i := range at {
		at[i] = from + i
	}
	return at
}
