package theory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// SignalOptions specifies the signal that a view shows.
type SignalOptions struct {
	Signal string  `json:"signal" help:"sine, chirp, step, square, noise, sum; sine+0.3*noise; or a file, WAV or CSV"`
	Column string  `json:"column" help:"of a CSV: name, or place counted from 1; empty for the first of numbers"`
	Length int     `json:"length" min:"8" max:"4096" help:"samples of the signal"`
	Whole  bool    `json:"whole" help:"squeeze all of a longer file into length samples, by averages"`
	Turns  float64 `json:"turns" min:"0" max:"2048" help:"periods of sine and square over the whole signal"`
	Seed   uint64  `json:"seed" help:"of noise"`

	// Recording is the content of the file that Signal names. The code that parses the options must also read the file.
	Recording *Recording `json:"-"`
}

// Input returns o. Options that embed SignalOptions thereby implement [WithSignal].
func (o *SignalOptions) Input() *SignalOptions { return o }

// builtIn contains the signals that are not files, as functions of x from 0 to 1.
var builtIn = map[string]func(x, turns float64) float64{
	"sine": func(x, turns float64) float64 { return math.Sin(2 * math.Pi * turns * x) },
	// The frequency rises from 0 to twice turns, so that there are turns periods in total.
	"chirp": func(x, turns float64) float64 { return math.Sin(2 * math.Pi * turns * x * x) },
	"step": func(x, _ float64) float64 {
		if x < 0.25 {
			return 0
		}
		return 1
	},
	"square": func(x, turns float64) float64 {
		if _, part := math.Modf(turns * x); part >= 0.5 {
			return -1
		}
		return 1
	},
	"sum": func(x, turns float64) float64 {
		return 0.6*math.Sin(2*math.Pi*turns*x) + 0.3*math.Sin(2*math.Pi*2.6*turns*x+1) + 0.4*x
	},
}

const noise = "noise" // has variance 1/4, so that most of it is between -1 and 1

// term is one term of a generated signal: a weight and a name.
type term struct {
	weight float64
	name   string
}

// terms parses a text such as "sine+0.3*noise". It returns false if the text does not name signals, and so must name a
// file.
func terms(text string) ([]term, bool) {
	var all []term
	for part := range strings.SplitSeq(text, "+") {
		t := term{weight: 1, name: strings.TrimSpace(part)}
		if before, after, found := strings.Cut(part, "*"); found {
			w, err := strconv.ParseFloat(strings.TrimSpace(before), 64)
			if err != nil || math.IsNaN(w) || math.Abs(w) > largest {
				return nil, false
			}
			t = term{weight: w, name: strings.TrimSpace(after)}
		}
		if builtIn[t.name] == nil && t.name != noise {
			return nil, false
		}
		all = append(all, t)
	}
	return all, true
}

// IsFile reports whether the signal must be read from the file that Signal names.
func (o *SignalOptions) IsFile() bool {
	_, made := terms(o.Signal)
	return !made
}

// SignalNames returns the names of the generated signals.
func SignalNames() []string { return []string{"sine", "chirp", "step", "square", noise, "sum"} }

// Samples returns the signal.
func (o *SignalOptions) Samples() ([]float64, error) {
	s, err := o.take()
	if err != nil {
		return nil, err
	}
	return s.u, nil
}

// signal is the signal that a view shows.
type signal struct {
	name  string
	u     []float64
	notes []string
}

// take returns the signal, from the recording if there is one.
func (o *SignalOptions) take() (*signal, error) {
	if o.Recording != nil {
		return o.recorded()
	}
	parts, ok := terms(o.Signal)
	if !ok {
		return nil, fmt.Errorf("signal: found %q, want one of %s, a sum of them such as sine+0.3*noise, or a file",
			o.Signal, strings.Join(SignalNames(), ", "))
	}
	if o.Length < 8 {
		return nil, fmt.Errorf("length: found %d, want 8 or more", o.Length)
	}
	s := &signal{name: o.Signal, u: make([]float64, o.Length)}
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	for _, part := range parts {
		for k := range s.u {
			v := 0.0
			if part.name == noise {
				v = 0.5 * rng.NormFloat64()
			} else {
				v = builtIn[part.name]((float64(k)+0.5)/float64(o.Length), o.Turns)
			}
			s.u[k] += part.weight * v
		}
	}
	if strings.Contains(o.Signal, noise) {
		s.name += fmt.Sprintf(", seed %d", o.Seed)
	}
	return s, nil
}

// recorded returns length samples of the recording.
func (o *SignalOptions) recorded() (*signal, error) {
	r := o.Recording
	values := r.Values
	s := &signal{name: r.Name}
	rate := r.Rate
	if len(values) < 8 {
		return nil, fmt.Errorf("%s: found %d numbers, want 8 or more", r.Name, len(values))
	}
	for k, v := range values {
		if math.IsNaN(v) || math.Abs(v) > largest {
			return nil, fmt.Errorf("%s: found %v at sample %d, want a number of at most %g", r.Name, v, k+1, largest)
		}
	}
	switch l := o.Length; {
	case len(values) <= l:
		if len(values) < l {
			s.notes = append(s.notes, fmt.Sprintf("%s has %d samples, all of which are shown.", r.Name, len(values)))
		}
		s.u = slices.Clone(values)
	case o.Whole:
		s.u = averages(values, l)
		rate *= float64(l) / float64(len(values))
		s.notes = append(s.notes, fmt.Sprintf(
			"%s has %d samples. Each of the %d that are shown is the mean of about %.4g.", r.Name, len(values), l,
			float64(len(values))/float64(l)))
	default:
		s.u = slices.Clone(values[:l])
		s.notes = append(s.notes, fmt.Sprintf(
			"%s has %d samples. The first %d are shown; --whole squeezes all of them together, --length takes more.",
			r.Name, len(values), l))
	}
	if rate > 0 {
		s.name += fmt.Sprintf(", %.6g samples a second", rate)
	}
	return s, nil
}

// averages returns the means of l pieces of x with almost equal length. x must have more than l entries.
func averages(x []float64, l int) []float64 {
	y := make([]float64, l)
	for k := range y {
		from, to := k*len(x)/l, (k+1)*len(x)/l
		for _, v := range x[from:to] {
			y[k] += v / float64(to-from)
		}
	}
	return y
}
