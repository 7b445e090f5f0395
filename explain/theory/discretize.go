package theory

import (
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var discretizeView = View{
	Name:  "discretize",
	Short: "One system sampled by four rules: responses, poles, stability",
	Long: `Shows the mass on a spring, m p'' + b p' + k p = u, sampled every dt by four rules for x' = Ax + Bu:

  euler          Abar = I + dt A                            Bbar = dt B
  backward_diff  Abar = (I - dt A)⁻¹                        Bbar = (I - dt A)⁻¹ dt B
  bilinear       Abar = (I - dt/2 A)⁻¹ (I + dt/2 A)         Bbar = (I - dt/2 A)⁻¹ dt B
  zoh            Abar = exp(dt A)                           Bbar = ∫₀^dt exp(sA) ds B: exact for a held input

A pole s of A becomes a pole z of Abar: 1 + z', 1/(1 - z'), (1 + z'/2)/(1 - z'/2), exp(z') with z' = dt s. A system is
stable if all s are left of the imaginary axis, all z inside the unit circle. S4, arXiv:2111.00396, uses bilinear,
Mamba, arXiv:2312.00752, zoh.`,
	Example: `  hippo explain ssm discretize
  hippo explain ssm discretize --dt 1                # Euler's rule is unstable
  hippo explain ssm discretize --friction 3 --stiffness 1 --dt 0.5`,
	New: func() Options {
		return &DiscretizeOptions{SpringOptions: SpringOptions{Mass: 1, Friction: 0.5, Stiffness: 4}, Dt: 0.25,
			Time: 12}
	},
}

// SpringOptions specifies a mass on a spring.
type SpringOptions struct {
	Mass      float64 `json:"mass" min:"0.001" max:"1000" help:"of the body"`
	Friction  float64 `json:"friction" min:"0" max:"1000" help:"force for a speed of 1"`
	Stiffness float64 `json:"stiffness" min:"0" max:"100000" help:"force for a distance of 1"`
}

func (o SpringOptions) spring() ssm.Spring {
	return ssm.Spring{Mass: o.Mass, Friction: o.Friction, Stiffness: o.Stiffness}
}

// DiscretizeOptions holds the options of the view discretize.
type DiscretizeOptions struct {
	SpringOptions
	Dt   float64 `json:"dt" min:"0.0001" max:"10" help:"time from one sample to the next"`
	Time float64 `json:"time" min:"0.1" max:"1000" help:"how long the responses are"`
}

// rules lists the rules of sampling in the order of the text.
var rules = []ssm.Method{ssm.Euler, ssm.BackwardEuler, ssm.Bilinear, ssm.ZOH}

// mostSteps is the maximum number of steps of a response.
const mostSteps = 4096

// Page returns the page with the system and its four samplings.
func (o *DiscretizeOptions) Page(context.Context) (*figure.Page, error) {
	steps := int(math.Round(o.Time / o.Dt))
	if steps < 2 || steps > mostSteps {
		return nil, fmt.Errorf("dt: found %v, which makes %d steps of a time of %v, want 2 to %d", o.Dt, steps, o.Time,
			mostSteps)
	}
	spring := o.spring()
	system := spring.System()
	own, err := ssm.Poles(system.A)
	if err != nil {
		return nil, err
	}
	fine := 1
	for fine*steps < mostPoints {
		fine++
	}
	exact, err := system.Discretize(o.Dt/float64(fine), ssm.ZOH)
	if err != nil {
		return nil, err
	}
	truth := exact.Scan(nil, ones(fine*steps))
	x0 := []float64{1, 0}
	var free []float64
	for k := range fine*steps + 1 {
		free = append(free, spring.Free(x0, float64(k)*o.Dt/float64(fine))[0])
	}
	step := []figure.Series{overTime("exact", append([]float64{0}, truth...), o.Dt/float64(fine))}
	release := []figure.Series{overTime("exact", free, o.Dt/float64(fine))}
	frequency := []figure.Series{o.response("exact", system.FrequencyResponse)}
	continuous := []figure.Series{points("poles of A", own)}
	var sampled []figure.Series
	table := &figure.Table{Columns: []string{"rule", "poles of Abar", "largest size", "stable", "largest error"}}
	lo, hi := bounds(truth, free, []float64{0})
	for _, rule := range rules {
		d, err := system.Discretize(o.Dt, rule)
		if err != nil {
			return nil, err
		}
		poles, err := ssm.Poles(d.Abar)
		if err != nil {
			return nil, err
		}
		u := ones(steps)
		y := append([]float64{0}, d.Scan(nil, u)...)
		step = append(step, dashed(overTime(rule.String(), cut(y, lo, hi), o.Dt)))
		released := append([]float64{x0[0]}, d.ZeroInput(x0, steps)...)
		release = append(release, dashed(overTime(rule.String(), cut(released, lo, hi), o.Dt)))
		frequency = append(frequency, dashed(o.response(rule.String(), func(omega float64) complex128 {
			return d.FrequencyResponse(omega * o.Dt)
		})))
		sampled = append(sampled, points(rule.String(), poles))
		worst := 0.0
		for k, v := range y {
			at := 0.0
			if k > 0 {
				at = truth[k*fine-1]
			}
			worst = max(worst, math.Abs(v-at))
		}
		table.Rows = append(table.Rows, poleRow(rule, poles, worst))
	}
	left := plane("continuous time", false, continuous...)
	left.Lines.At = []float64{0}
	bode := lines("size of the response", "angular frequency ω, up to half the sampling rate", "|H|", frequency...)
	bode.Y.Log = true
	page := &figure.Page{
		Title: "Sampling a system",
		Subtitle: fmt.Sprintf("mass %g, friction %g, stiffness %g, sampled every %g", o.Mass, o.Friction, o.Stiffness,
			o.Dt),
		Notes: []string{"Responses that leave the picture end there."},
		Figures: []*figure.Figure{
			still("responses", "Responses",
				"Left: a push of 1 that begins at time 0. Right: the mass let go from a distance of 1. "+
					"Zero-order hold goes through the exact response at every sample, "+
					"as the push is held over each step.", "",
				lines("to a push that begins", "time", "position", step...),
				lines("let go", "time", "position", release...)),
			still("poles", "Poles in both planes",
				"Left: the poles s of A; the system is stable if they are left of the dashed line. Right: "+
					"the poles of Abar; the sampled system is stable if they are inside the unit circle. "+
					"Zero-order hold maps s to exp(dt s), which is where the samples of the true system lie.", "",
				left, plane("sampled", true, sampled...), figure.Panel{Title: "stability", Table: table}),
			o.regions(own),
			still("frequency", "Frequency responses",
				"|H|: how much a wave of each frequency is taken on. The bilinear rule bends the axis: "+
					"at ω it has the response of the true system at 2/dt tan(ω dt/2), over cos(ω dt/2), "+
					"since u_k enters alone and not as the mean of u_k and u_{k-1}.", "", bode),
			o.order(),
		},
	}
	return page, nil
}

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// cut replaces the numbers from the first one far outside of lo to hi by NaN, so that an unstable response does not
// flatten the others.
func cut(y []float64, lo, hi float64) []float64 {
	margin := hi - lo
	shown := slices.Clone(y)
	for i, v := range y {
		if !(v > lo-margin && v < hi+margin) {
			for j := range shown[i:] {
				shown[i+j] = math.NaN()
			}
			break
		}
	}
	return shown
}

func poleRow(rule ssm.Method, poles []complex128, worst float64) []string {
	text, size := "", 0.0
	for i, z := range poles {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%.4f%+.4fi", real(z), imag(z))
		size = max(size, cmplx.Abs(z))
	}
	stable := "yes"
	switch {
	case size > 1+1e-12:
		stable = "no"
	case size > 1-1e-12:
		stable = "on the border"
	}
	return []string{rule.String(), text, fmt.Sprintf("%.6f", size), stable, fmt.Sprintf("%.3g", worst)}
}

// response returns the magnitude of a response at frequencies up to half the sampling rate. It omits 0, where a spring
// of stiffness 0 has a pole.
func (o *DiscretizeOptions) response(name string, at func(omega float64) complex128) figure.Series {
	out := figure.Series{Name: name}
	for i := range mostPoints {
		omega := math.Pi / o.Dt * float64(i+1) / mostPoints
		out.X, out.Y = append(out.X, omega), append(out.Y, max(cmplx.Abs(at(omega)), 1e-17))
	}
	return out
}

// regions returns a figure of where each rule is stable: the magnitude of the pole z to which it maps z' = dt s.
func (o *DiscretizeOptions) regions(own []complex128) *figure.Figure {
	const cells, reach = 61, 3.0 // a cell is 0.1 wide
	step := 2 * reach / (cells - 1)
	f := still("stability", "Where each rule is stable",
		"Over the plane of z' = dt s, the logarithm of the size of the pole that the rule makes of s: "+
			"below 0 it is stable. Euler's rule is stable only in a disk, backward Euler also right of the axis, "+
			"where the true system is not; the bilinear rule and zero-order hold are stable where the system is.", "")
	f.Columns = 2
	for _, rule := range rules {
		m := &figure.Map{Rows: cells, Cols: cells, Diverging: true, Min: -2, Max: 2, Unit: "ln |z|",
			ColNames: texts(cells, -reach, step), RowNames: texts(cells, reach, -step)}
		var grid []complex128
		for r := range cells {
			for c := range cells {
				grid = append(grid, complex(-reach+step*float64(c), reach-step*float64(r)))
			}
		}
		d := ssm.Diagonal{A: grid, B: make([]complex128, len(grid)), Dt: 1}
		abar, _ := d.Discretize(rule)
		for _, z := range abar {
			m.Values = append(m.Values, math.Log(max(cmplx.Abs(z), 1e-9)))
		}
		f.Frames[0].Panels = append(f.Frames[0].Panels, mapPanel(rule.String(), "Re dt s", "Im dt s", m))
	}
	f.Caption += " The poles of this system times dt are at"
	for i, s := range own {
		if i > 0 {
			f.Caption += " and"
		}
		f.Caption += fmt.Sprintf(" %.3g%+.3gi", o.Dt*real(s), o.Dt*imag(s))
	}
	f.Caption += "."
	return f
}

// order returns a figure of the largest error of the response to an initial push, for dt, dt/2, dt/4, ...
func (o *DiscretizeOptions) order() *figure.Figure {
	system := o.spring().System()
	all := make([]figure.Series, len(rules))
	for i, rule := range rules {
		all[i].Name = rule.String()
		for dt := o.Dt; dt > o.Dt/100 && o.Time/dt < mostSteps; dt /= 2 {
			steps := int(math.Round(o.Time / dt))
			exact, err := system.Discretize(dt, ssm.ZOH)
			if err != nil {
				break
			}
			d, err := system.Discretize(dt, rule)
			if err != nil {
				break
			}
			truth, y := exact.Scan(nil, ones(steps)), d.Scan(nil, ones(steps))
			worst := 1e-17
			for k, v := range y {
				worst = max(worst, math.Abs(v-truth[k]))
			}
			all[i].X = append(all[i].X, dt)
			all[i].Y = append(all[i].Y, min(worst, largest))
		}
	}
	p := lines("largest error of the response to a push", "dt", "", all...)
	p.X.Log, p.Y.Log = true, true
	return still("order", "How the error falls with the step",
		"Half the step halves the error of both Euler rules and quarters that of the bilinear rule. "+
			"Zero-order hold is exact for this input.", "", p)
}
