package theory

import (
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var springView = View{
	Name:  "spring",
	Short: "A mass on a spring as a state-space model, and the Kalman filter that follows it through noise",
	Long: `Shows the state-space model that everybody has seen: a mass on a spring with friction, m p'' + b p' + k p =
u. Its state is position and speed, A = [0 1; -k/m -b/m], B = (0, 1/m), C = (1, 0).

The push u is a signal with noise; the position is seen with noise; the speed is not seen at all. The Kalman filter
knows the system and the sizes of the noises, and estimates both:

  predict   mean = Abar mean + Bbar u,  cov = Abar cov Abarᵀ + Q
  see       gain = cov Cᵀ (C cov Cᵀ + R)⁻¹,  mean += gain (y - C mean),  cov -= gain C cov

The bands are two standard deviations to either side: about 95 of 100 true values should be inside. The smoother
(Rauch, Tung and Striebel 1965) goes back over it with all that came later. Kalman 1960.`,
	Example: `  hippo explain ssm spring
  hippo explain ssm spring --noise 0.5 --friction 0.1
  hippo explain ssm spring --signal noise --push_noise 0 --seed 7`,
	New: func() Options {
		return &KalmanOptions{
			SignalOptions: SignalOptions{Signal: "square", Length: 200, Turns: 2, Seed: 1},
			SpringOptions: SpringOptions{Mass: 1, Friction: 0.4, Stiffness: 2}, Dt: 0.1, Noise: 0.2, PushNoise: 0.5,
		}
	},
}

// KalmanOptions holds the options of the view spring.
type KalmanOptions struct {
	SignalOptions
	SpringOptions
	Dt        float64 `json:"dt" min:"0.0001" max:"10" help:"time from one sample to the next"`
	Noise     float64 `json:"noise" min:"0.000001" max:"1000" help:"standard deviation of what is seen"`
	PushNoise float64 `json:"push_noise" min:"0" max:"1000" help:"standard deviation of what is added to the push"`
}

// tracked is a spring with the estimates of its state.
type tracked struct {
	truth    [][]float64 // position and speed (l, 2)
	seen     [][]float64 // (l, 1)
	track    *ssm.Track
	smoothed []ssm.Gaussian
}

// follow simulates the spring with the push u and noise, and filters the observations.
func (o *KalmanOptions) follow(u []float64) (*tracked, error) {
	d, err := o.spring().System().Discretize(o.Dt, ssm.ZOH)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	b := mat.NewDense(2, 1, d.Bbar)
	q := mat.NewSymDense(2, nil)
	q.SymRankOne(q, o.PushNoise*o.PushNoise, mat.NewVecDense(2, d.Bbar))
	for i := range 2 {
		q.SetSym(i, i, q.At(i, i)+1e-12) // the smoother needs an inverse
	}
	kalman := &ssm.Kalman{
		Move: ssm.LinearMap(d.Abar, b), See: ssm.LinearMap(mat.NewDense(1, 2, d.C), nil),
		Q: q, R: mat.NewSymDense(1, []float64{o.Noise * o.Noise}),
	}
	// The state at sample k is that before the push at k.
	t := &tracked{}
	x := []float64{0, 0}
	pushes := make([][]float64, len(u))
	for k, v := range u {
		t.truth = append(t.truth, append([]float64(nil), x...))
		t.seen = append(t.seen, []float64{x[0] + o.Noise*rng.NormFloat64()})
		pushes[k] = []float64{v}
		d.Step(x, v+o.PushNoise*rng.NormFloat64())
	}
	prior := ssm.Gaussian{Mean: []float64{0, 0}, Cov: mat.NewSymDense(2, []float64{1, 0, 0, 1})}
	if t.track, err = kalman.Filter(prior, pushes, t.seen); err != nil {
		return nil, err
	}
	t.smoothed, err = t.track.Smooth()
	return t, err
}

// Page returns the page with the spring and its filter.
func (o *KalmanOptions) Page(context.Context) (*figure.Page, error) {
	s, err := o.take()
	if err != nil {
		return nil, err
	}
	t, err := o.follow(s.u)
	if err != nil {
		return nil, err
	}
	l := len(s.u)
	seen := figure.Series{Name: "seen", X: upTo(l, o.Dt), Points: true}
	for _, y := range t.seen {
		seen.Y = append(seen.Y, y[0])
	}
	var gains [2]figure.Series
	for i, name := range []string{"of the position", "of the speed"} {
		gains[i] = figure.Series{Name: name, X: upTo(l, o.Dt)}
		for _, g := range t.track.Gain {
			gains[i].Y = append(gains[i].Y, g.At(i, 0))
		}
	}
	position := lines("position", "time", "", seen, o.band("filtered", t.track.Filtered, 0), o.truth(t, 0))
	speed := lines("speed, which is not seen", "time", "", o.band("filtered", t.track.Filtered, 1), o.truth(t, 1))
	page := &figure.Page{
		Title: "A spring and its Kalman filter",
		Subtitle: fmt.Sprintf("push: %s, %d samples every %g; mass %g, friction %g, stiffness %g; "+
			"noise %g of what is seen, %g of the push, seed %d", s.name, l, o.Dt, o.Mass, o.Friction, o.Stiffness,
			o.Noise, o.PushNoise, o.Seed),
		Notes: s.notes,
		Figures: []*figure.Figure{
			o.system(s.u),
			still("filter", "What the filter knows", "Line and band: the estimate from all that has been seen so far, "+
				"with two standard deviations to either side. The speed is never seen: "+
				"the filter knows it from how the position moves.", "Kalman 1960", position, speed),
			still("smoother", "And with what came later",
				"The smoother goes back over the estimates from the end. Its bands are narrower: "+
					"the future tells of the past.", "Rauch, Tung and Striebel 1965",
				lines("position", "time", "", seen, o.band("smoothed", t.smoothed, 0), o.truth(t, 0)),
				lines("speed", "time", "", o.band("smoothed", t.smoothed, 1), o.truth(t, 1))),
			still("gain", "The gain, and how good it is",
				"The gain says how far the estimates move for a surprise of 1. "+
					"It settles as the filter learns how much it can know. The table has root mean square errors, "+
					"and the share of true values inside the bands.", "",
				lines("gain", "time", "", gains[:]...), figure.Panel{Title: "errors", Table: o.errors(t)}),
		},
	}
	return page, nil
}

// band returns one number of a sequence of estimates, with a band of two standard deviations on either side.
func (o *KalmanOptions) band(name string, estimates []ssm.Gaussian, i int) figure.Series {
	s := figure.Series{Name: name, X: upTo(len(estimates), o.Dt)}
	for _, g := range estimates {
		sd := math.Sqrt(max(0, g.Cov.At(i, i)))
		s.Y, s.Low, s.High = append(s.Y, g.Mean[i]), append(s.Low, g.Mean[i]-2*sd), append(s.High, g.Mean[i]+2*sd)
	}
	return s
}

func (o *KalmanOptions) truth(t *tracked, i int) figure.Series {
	s := figure.Series{Name: "true", X: upTo(len(t.truth), o.Dt), Dashed: true}
	for _, x := range t.truth {
		s.Y = append(s.Y, x[i])
	}
	return s
}

// system returns a figure of the spring without noise: pushed, released, and driven at each frequency.
func (o *KalmanOptions) system(u []float64) *figure.Figure {
	spring := o.spring()
	free := figure.Series{Name: "position"}
	speed := figure.Series{Name: "speed"}
	for k := range len(u) {
		x := spring.Free([]float64{1, 0}, float64(k)*o.Dt)
		free.X, free.Y = append(free.X, float64(k)*o.Dt), append(free.Y, x[0])
		speed.X, speed.Y = append(speed.X, float64(k)*o.Dt), append(speed.Y, x[1])
	}
	orbit := figure.Series{Name: "position and speed", X: free.Y, Y: speed.Y}
	response := figure.Series{Name: "|H|"}
	top := 3 * math.Sqrt(max(o.Stiffness, 0.01)/o.Mass)
	for i := range mostPoints {
		omega := top * float64(i+1) / mostPoints
		response.X, response.Y = append(response.X, omega), append(response.Y, cmplx.Abs(spring.Response(omega)))
	}
	shaken := lines("shaken", "angular frequency ω", "size of the motion", response)
	shaken.Lines.At = []float64{spring.Resonance()}
	return still("system", "The spring",
		"Let go from a distance of 1 it swings (C exp(tA) x), and its state goes around and inward. "+
			"Shaken at the angular frequency ω it moves by |H| = 1/|k - mω² + ibω| for a force of 1, "+
			fmt.Sprintf("the most at ω = %.4g.", spring.Resonance()), "",
		lines("let go", "time", "", free, speed), lines("state", "position", "speed", orbit), shaken)
}

// errors returns a table that compares estimates with the truth.
func (o *KalmanOptions) errors(t *tracked) *figure.Table {
	table := &figure.Table{Columns: []string{"estimate", "error of position", "error of speed", "position in band",
		"speed in band"}}
	var raw []float64
	for k, y := range t.seen {
		raw = append(raw, y[0]-t.truth[k][0])
	}
	table.Rows = append(table.Rows, []string{"seen", figure.Number(rms(raw)), "", "", ""})
	for _, e := range []struct {
		name      string
		estimates []ssm.Gaussian
	}{{"predicted", t.track.Predicted}, {"filtered", t.track.Filtered}, {"smoothed", t.smoothed}} {
		row := []string{e.name}
		var shares []string
		for i := range 2 {
			var off []float64
			inside := 0
			for k, g := range e.estimates {
				off = append(off, g.Mean[i]-t.truth[k][i])
				if off[k]*off[k] <= 4*g.Cov.At(i, i) {
					inside++
				}
			}
			row = append(row, figure.Number(rms(off)))
			shares = append(shares, fmt.Sprintf("%.1f %%", 100*float64(inside)/float64(len(off))))
		}
		table.Rows = append(table.Rows, append(row, shares...))
	}
	return table
}
