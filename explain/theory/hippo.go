package theory

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var hippoView = View{
	Name:  "hippo",
	Short: "HiPPO's memory as a signal passes: states, and the past rebuilt from them",
	Long: `Shows what the state of HiPPO's systems x' = Ax + Bu knows of a signal while it passes. The state holds the
coefficients of the past in a family of functions; put back in, they rebuild the past:

  legs   all of the past, in Legendre polynomials stretched over it        HiPPO, theorem 2: x' = (Ax + Bu)/t
  legt   the last window, in Legendre polynomials                          HiPPO, theorem 1
  lagt   all of the past, fading, in Laguerre functions                    HiPPO, appendix D.2
  fout   the last window, in a Fourier series                              How to Train Your HiPPO, §3.3

The window is a share of the signal. lagt has no window: its unit of time is set so that its n functions reach about as
far back. The error at an age is that of what is rebuilt of the moment so long ago.

HiPPO is arXiv:2008.07669, How to Train Your HiPPO arXiv:2206.12037.`,
	Example: `  hippo explain ssm hippo
  hippo explain ssm hippo --signal sine+0.2*noise --n 32 --window 0.25
  hippo explain ssm hippo --measures legs,legt --signal speech.wav --length 2048 --whole`,
	New: func() Options {
		return &HiPPOOptions{
			SignalOptions: SignalOptions{Signal: "sum", Length: 256, Turns: 3, Seed: 1},
			Measures:      []string{"legs", "legt", "lagt", "fout"}, N: 16, Window: 0.4, Method: "bilinear",
			Moments: 24,
		}
	},
}

// HiPPOOptions holds the options of the view hippo.
type HiPPOOptions struct {
	SignalOptions
	Measures []string `json:"measures" enum:"legs,legt,lagt,fout" help:"which memories to show"`
	N        int      `json:"n" min:"2" max:"64" help:"numbers in the state; even"`
	Window   float64  `json:"window" min:"0.02" max:"1" help:"window of legt and fout, as a share of the signal"`
	Method   string   `json:"method" enum:"bilinear,zoh,euler,backward_diff" help:"rule of sampling"`
	Moments  int      `json:"moments" min:"1" max:"200" help:"moments to show, one frame each"`
}

// measureNames maps measures to their names in papers.
var measureNames = map[string]string{"legs": "LegS", "legt": "LegT", "lagt": "LagT", "fout": "FouT"}

// memory is a HiPPO system that has processed a signal.
type memory struct {
	name   string
	states [][]float64 // after each sample (l, n)
	// rebuild returns the samples from, ..., k as reconstructed from the state after sample k.
	rebuild func(k, from int) []float64
	// reach returns the number of samples that the memory covers at sample k.
	reach func(k int) int
	about string
}

// Memory returns the states (l, n) of a HiPPO system with n numbers after each sample of the signal u (l), for one of
// the measures of the view hippo, and a function that reconstructs the samples from, ..., k from the state after sample
// k. window is a share of the signal. It returns an error for an unknown measure, or if the rule of sampling overflows.
func Memory(measure string, u []float64, n int, window float64, m ssm.Method) (states [][]float64,
	rebuild func(k, from int) []float64, err error) {
	mem, err := memorize(measure, u, n, window, m)
	if err != nil {
		return nil, nil, err
	}
	return mem.states, mem.rebuild, nil
}

func memorize(measure string, u []float64, n int, window float64, m ssm.Method) (*memory, error) {
	l := len(u)
	span := window * float64(l) // in samples
	mem := &memory{name: measure, reach: func(k int) int { return min(k+1, int(span)) }}
	var a *mat.Dense
	var b []float64
	var phi ssm.Basis
	var x func(age, k float64) float64 // returns the x of the basis for a moment, from its age in samples
	unit := span
	switch measure {
	case "legs":
		// Time starts one sample before the signal: see ssm.MemorizeLegS.
		phi, x = ssm.Legendre, func(age, k float64) float64 { return 1 - age/(k+2) }
		mem.reach = func(k int) int { return k + 1 }
		mem.about = "Legendre polynomials stretched over all of the past"
	case "legt":
		a, b = ssm.LegT(n)
		phi, x = ssm.Legendre, func(age, _ float64) float64 { return 1 - age/span }
		mem.about = fmt.Sprintf("Legendre polynomials over the last %.4g samples", span)
	case "lagt":
		a, b = ssm.LagT(n, 1)
		unit = span / (2 * float64(n))
		phi, x = ssm.Laguerre, func(age, _ float64) float64 { return age / unit }
		mem.reach = func(k int) int { return k + 1 }
		mem.about = fmt.Sprintf("Laguerre functions of the age, in units of %.4g samples", unit)
	case "fout":
		if n%2 != 0 {
			return nil, fmt.Errorf("n: found %d, want an even number for fout", n)
		}
		a, b = ssm.FouT(n)
		phi, x = ssm.FourierHiPPO, func(age, _ float64) float64 { return age / span }
		mem.about = fmt.Sprintf("a Fourier series over the last %.4g samples", span)
	default:
		return nil, fmt.Errorf("measures: found %q, want legs, legt, lagt or fout", measure)
	}
	var err error
	if measure == "legs" {
		mem.states, err = ssm.MemorizeLegS(n, u, m)
	} else {
		mem.states, err = ssm.Memorize(a, b, u, 1/unit, m)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", measure, err)
	}
	mem.rebuild = func(k, from int) []float64 {
		at := make([]float64, 0, k+1-from)
		for j := from; j <= k; j++ {
			at = append(at, x(float64(k-j)+0.5, float64(k))) // from the middle of a sample to the end of the last
		}
		return ssm.Reconstruct(phi, mem.states[k], at)
	}
	return mem, nil
}

// Page returns the page with the memories.
func (o *HiPPOOptions) Page(ctx context.Context) (*figure.Page, error) {
	s, err := o.take()
	if err != nil {
		return nil, err
	}
	method, err := ssm.ParseMethod(o.Method)
	if err != nil {
		return nil, err
	}
	page := &figure.Page{
		Title: "HiPPO: a state that remembers",
		Subtitle: fmt.Sprintf("signal: %s, %d samples; a state of %d numbers, window %.4g of the signal, sampled by %s",
			s.name, len(s.u), o.N, o.Window, o.Method),
		Notes: s.notes,
	}
	if o.Window*float64(len(s.u)) < 2 {
		return nil, fmt.Errorf("window: found %v, which is %.3g samples of the signal, want 2 or more", o.Window,
			o.Window*float64(len(s.u)))
	}
	if len(o.Measures) == 0 {
		return nil, fmt.Errorf("measures: found none, want legs, legt, lagt or fout")
	}
	var byAge []figure.Series
	var states []figure.Panel
	seen := map[string]bool{}
	for _, measure := range o.Measures {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if seen[measure] {
			continue
		}
		seen[measure] = true
		mem, err := memorize(measure, s.u, o.N, o.Window, method)
		if err != nil {
			return nil, err
		}
		if last := mem.states[len(s.u)-1]; !(rms(last) < largest) {
			return nil, fmt.Errorf("%s: the state grew without bound, as the rule %s is unstable at this step; "+
				"want another --method, a larger --window or a smaller --n", measure, o.Method)
		}
		page.Figures = append(page.Figures, o.passing(mem, s))
		byAge = append(byAge, errorByAge(mem, s.u))
		states = append(states, statesMap(mem))
	}
	falling := lines("error by age", "age in samples", "error over the signal's size", byAge...)
	falling.Y.Log = true
	if o.Window < 1 {
		falling.Lines.At = []float64{o.Window * float64(len(s.u))}
	}
	page.Figures = append(page.Figures, still("error-by-age", "How well each age is remembered",
		"Root mean square of what is rebuilt minus what was, over the moments of the second half of the signal, "+
			"over that of the signal. A window ends at the dashed line, and knows nothing beyond it; "+
			"LegS spreads its numbers over all of the past; LagT knows all of it, too, but lets go of it.",
		"HiPPO, arXiv:2008.07669", falling), still("states", "The states over time",
		"A row for each number of the state, a column for each moment. The first rows are what is coarse, "+
			"later ones finer detail. In LagT each row follows the one before, like a delay.", "", states...))
	return page, nil
}

// passing returns the figure of a memory as the signal passes.
func (o *HiPPOOptions) passing(mem *memory, s *signal) *figure.Figure {
	l := len(s.u)
	f := &figure.Figure{Name: "memory-" + mem.name, Title: "What the state remembers", Group: "memory",
		Pick: measureNames[mem.name], Source: "HiPPO, arXiv:2008.07669; How to Train Your HiPPO, arXiv:2206.12037",
		Columns: 1,
		Caption: "As the signal passes, the state of " + fmt.Sprint(o.N) + " numbers holds the coefficients of " +
			mem.about + ". The middle panel is the state, the last one the error at each moment that has passed."}
	whole := evenly(l, mostPoints)
	var all [][]float64
	for _, k := range evenly(l, o.Moments) {
		all = append(all, mem.states[k])
	}
	least, most := bounds(all...)
	lo, hi := bounds(s.u)
	lo, hi = lo-(hi-lo)/2, hi+(hi-lo)/2
	for _, k := range evenly(l, o.Moments) {
		from := k + 1 - mem.reach(k)
		rebuilt := mem.rebuild(k, from)
		shown := evenly(len(rebuilt), mostPoints)
		past := figure.Series{Name: "rebuilt from the state"}
		missed := figure.Series{Name: "error"}
		for _, i := range shown {
			past.X, past.Y = append(past.X, float64(from+i)), append(past.Y, rebuilt[i])
			missed.X = append(missed.X, float64(from+i))
			missed.Y = append(missed.Y, max(math.Abs(rebuilt[i]-s.u[from+i]), 1e-17))
		}
		signals := lines("signal and memory", "sample", "", picked("signal", s.u, whole), past)
		signals.Lines.At = []float64{float64(k)}
		signals.X.Max, signals.Y.Min, signals.Y.Max = float64(l), lo, hi
		state := figure.Panel{Title: "state", X: figure.Axis{Label: "i"}, Y: figure.Axis{Label: "x_i", Min: least,
			Max: most},
			Bars: &figure.Bars{Names: texts(o.N, 0, 1), Series: []figure.Series{{Name: "x_i", Y: mem.states[k]}}}}
		errors := lines("size of the error", "sample", "", missed)
		errors.X.Max, errors.Y.Log, errors.Y.Min, errors.Y.Max = float64(l), true, 1e-4*(hi-lo), hi-lo
		f.Frames = append(f.Frames, figure.Frame{Label: fmt.Sprintf("sample %d", k+1),
			Panels: []figure.Panel{signals, state, errors}})
	}
	return f
}

// errorByAge returns the root mean square error of a memory at each age, over moments in the second half of the signal,
// divided by that of the signal.
func errorByAge(mem *memory, u []float64) figure.Series {
	l := len(u)
	half := l / 2
	scale := rms(u)
	if scale == 0 {
		scale = 1
	}
	square := make([]float64, half)
	moments := evenly(l-half, 64)
	for _, k := range moments {
		k += half
		for i, v := range mem.rebuild(k, k+1-half) {
			d := v - u[k+1-half+i]
			square[half-1-i] += d * d / float64(len(moments))
		}
	}
	out := figure.Series{Name: measureNames[mem.name]}
	for _, age := range evenly(half, mostPoints) {
		if age >= mem.reach(l-1) {
			break // a polynomial has no meaning beyond its window
		}
		out.X = append(out.X, float64(age))
		out.Y = append(out.Y, max(math.Sqrt(square[age])/scale, 1e-17))
	}
	return out
}

// statesMap returns a panel of the state over time, with its numbers as rows.
func statesMap(mem *memory) figure.Panel {
	n := len(mem.states[0])
	at := evenly(len(mem.states), mostCells)
	m := &figure.Map{Rows: n, Cols: len(at), Diverging: true, Values: make(figure.Floats, n*len(at)),
		ColStep: max(1, len(mem.states)/len(at))}
	for c, k := range at {
		m.ColNames = append(m.ColNames, fmt.Sprint(k+1))
		for i, v := range mem.states[k] {
			m.Values[i*len(at)+c] = v
		}
	}
	return mapPanel(measureNames[mem.name], "sample", "number of the state", m)
}
