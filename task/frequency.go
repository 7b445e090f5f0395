package task

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
)

// Frequency asks for the frequency in hertz of a decaying oscillation with noise, from samples at irregular times:
//
//	x(t) = e^(-t/duration)·sin(2π f t + φ) + noise·ε
//
// The frequencies f have a constant ratio. With clocks=uneven a sensor takes 100 samples a second but loses some: each
// sequence keeps its own share of them, from a tenth to all. With clocks=mixed the clock has 1 Hz in half of the
// sequences and 100 Hz in the others. The number of cycles per sample then says little about the frequency, so a
// network needs the times. The option dt determines how it gets them. It can be none, for comparison. The network is
// also scored on sequences with a sampling that does not occur in training.
var Frequency = &Task{
	Name: "frequency", Group: "classification",
	About:  "samples at uneven times, or by slow and fast clocks: how many hertz does the oscillation have?",
	Source: "generated",
	Options: func() any {
		return &frequencyOptions{Clocks: "uneven", Dt: "steps", Classes: 8, Noise: 0.3, Train: 4000, Valid: 500,
			Test: 1000}
	},
	Open: func(ctx context.Context, _ string, options any) (*Set, error) {
		return options.(*frequencyOptions).open(ctx)
	},
}

type frequencyOptions struct {
	Clocks  string  `json:"clocks" enum:"uneven,mixed" help:"samples lost at random, or clocks of 1 and 100 Hz"`
	Dt      string  `json:"dt" enum:"none,input,steps,both" help:"how the network gets the times: see hippo fit"`
	Classes int     `json:"classes" help:"frequencies" min:"2" max:"64"`
	Noise   float64 `json:"noise" help:"deviation of the noise" min:"0" max:"10"`
	Train   int     `json:"train" help:"sequences to train on" min:"1" max:"100000"`
	Valid   int     `json:"valid" help:"sequences to choose by" min:"1" max:"100000"`
	Test    int     `json:"test" help:"sequences to test on" min:"1" max:"100000"`
	Seed    uint64  `json:"seed" help:"seed of the data"`
}

// clock draws the sampling rate in hertz of a sequence and the share of the samples that is kept.
type clock func(rng *rand.Rand) (rate, share float64)

// sampling describes the sampling of sequences for one value of frequencyOptions.Clocks.
type sampling struct {
	trained   clock
	others    []clock // clocks at which the trained network is also tested
	names     []string
	low, high float64 // range of the frequencies, in hertz
	samples   int     // samples per sequence; 0 for all until end
	end       float64 // end of the sequences in seconds
}

// fastest is the highest rate, in hertz. Its period is the unit of the times that networks get.
const fastest = 100

// samplings maps the values of frequencyOptions.Clocks to samplings.
var samplings = map[string]sampling{
	"uneven": {
		trained: func(rng *rand.Rand) (rate, share float64) { return fastest, math.Pow(10, -rng.Float64()) },
		others:  []clock{func(*rand.Rand) (rate, share float64) { return fastest, 0.07 }},
		names:   []string{"7 % kept"}, low: 1, high: 8, samples: 96, end: 2,
	},
	"mixed": {
		trained: func(rng *rand.Rand) (rate, share float64) {
			if rng.IntN(2) == 0 {
				return 1, 1
			}
			return fastest, 1
		},
		others: []clock{
			func(*rand.Rand) (rate, share float64) { return 5, 1 },
			func(*rand.Rand) (rate, share float64) { return 25, 1 },
			func(*rand.Rand) (rate, share float64) { return fastest, 0.2 },
		},
		names: []string{"5 Hz", "25 Hz", "100 Hz, 20 % kept"}, low: 0.06, high: 0.42, end: 16,
	},
}

func (o *frequencyOptions) open(ctx context.Context) (*Set, error) {
	how := samplings[o.Clocks]
	s := &Set{Channels: o.channels(), Outputs: o.Classes, Steps: o.Dt == "steps" || o.Dt == "both",
		Inputs: []Channel{{Name: "signal", Deviation: 1}}, Classes: how.classes(o.Classes)}
	for len(s.Inputs) < s.Channels {
		s.Inputs = append(s.Inputs, Channel{Name: "log time since the sample before", Deviation: 1})
	}
	splits := make([]oscillations, 3+len(how.others))
	for i, n := range []int{o.Train, o.Valid, o.Test} {
		splits[i] = o.draw(how, how.trained, i, n)
	}
	for i, c := range how.others {
		splits[3+i] = o.draw(how, c, 3+i, o.Test)
		s.Extra = append(s.Extra, Extra{Name: how.names[i], Split: splits[3+i]})
	}
	s.Train, s.Valid, s.Test = splits[0], splits[1], splits[2]
	s.MaxLength = max(longest(splits[0]), longest(splits[1]), longest(splits[2]))
	return s, ctx.Err()
}

// channels returns the number of input channels: the signal, and optionally the time as an input, as a step, or as
// both.
func (o *frequencyOptions) channels() int {
	return map[string]int{"none": 1, "input": 2, "steps": 2, "both": 3}[o.Dt]
}

// hertz returns frequency k of n.
func (s *sampling) hertz(k, n int) float64 {
	return s.low * math.Pow(s.high/s.low, float64(k)/float64(n-1))
}

func (s *sampling) classes(n int) (names []string) {
	for k := range n {
		names = append(names, strconv.FormatFloat(s.hertz(k, n), 'g', 3, 64)+" Hz")
	}
	return names
}

// oscillations is a Split of examples with a single class each. It implements Lengths.
type oscillations struct {
	Examples
	channels int
}

// Length returns the number of samples of example i.
func (s oscillations) Length(i int) int { return len(s.Examples[i].Values) / s.channels }

// draw generates split number i.
func (o *frequencyOptions) draw(how sampling, c clock, i, n int) oscillations {
	rng := rand.New(rand.NewPCG(o.Seed, uint64(i)))
	s := oscillations{make(Examples, n), o.channels()}
	for k := range s.Examples {
		class := rng.IntN(o.Classes)
		s.Examples[k] = Example{Values: o.sequence(rng, how, c, how.hertz(class, o.Classes)),
			Targets: []int32{int32(class)}}
	}
	return s
}

// sequence samples an oscillation of f hertz.
func (o *frequencyOptions) sequence(rng *rand.Rand, how sampling, c clock, f float64) (values []float32) {
	rate, share := c(rng)
	phase, before, samples := 2*math.Pi*rng.Float64(), -1, 0
	for tick := 0; how.samples == 0 && float64(tick) < how.end*rate || samples < how.samples; tick++ {
		if share < 1 && rng.Float64() >= share {
			continue
		}
		t := float64(tick) / rate
		x := math.Exp(-t/how.end)*math.Sin(2*math.Pi*f*t+phase) + o.Noise*rng.NormFloat64()
		gap := 0.0 // logarithm of the steps since the previous sample; 0 for the first sample
		if before >= 0 {
			gap = math.Log(float64(tick-before) * fastest / rate)
		}
		values = append(values, float32(x))
		for range o.channels() - 1 {
			values = append(values, float32(gap))
		}
		before, samples = tick, samples+1
	}
	return values
}
