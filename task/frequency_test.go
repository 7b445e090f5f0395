package task

import (
	"context"
	"math"
	"reflect"
	"testing"
)

// TestFrequency checks that each sequence without noise, at the times that are the sums of the gaps between its
// samples, is a decaying oscillation with the frequency of its class and not of a neighboring class. It also checks
// that the clocks follow the option, and that the channels follow dt with the same samples.
func TestFrequency(t *testing.T) {
	for _, clocks := range []string{"uneven", "mixed"} {
		how := samplings[clocks]
		open := func(dt string) *Set {
			o := Frequency.Options().(*frequencyOptions)
			o.Clocks, o.Dt, o.Noise, o.Train, o.Valid, o.Test = clocks, dt, 0, 40, 3, 4
			s, err := Frequency.Open(context.Background(), "", o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s, plain := open("both"), open("none")
		if !s.Steps || s.Channels != 3 || plain.Steps || plain.Channels != 1 || open("input").Steps ||
			!open("steps").Steps || len(s.Classes) != 8 || len(s.Extra) != len(how.names) {
			t.Errorf("%s: found %d and %d channels, steps %v and %v", clocks, s.Channels, plain.Channels, s.Steps,
				plain.Steps)
		}
		var ex, bare Example
		gaps := map[float64]int{}
		for i := range s.Train.Len() {
			s.Train.Example(i, &ex)
			plain.Train.Example(i, &bare)
			var signal []float32
			var times []float64
			now := 0.0
			for at := 0; at < len(ex.Values); at += 3 {
				step := math.Exp(float64(ex.Values[at+1]))
				if ex.Values[at+2] != ex.Values[at+1] || math.Abs(step-math.Round(step)) > 1e-4*step {
					t.Fatalf("%s: found the times %v", clocks, ex.Values[at:at+3])
				}
				if at > 0 {
					now += math.Round(step) / fastest
					gaps[math.Round(step)]++
				}
				signal, times = append(signal, ex.Values[at]), append(times, now)
			}
			if !reflect.DeepEqual(signal, bare.Values) || s.Train.(Lengths).Length(i) != len(signal) ||
				len(signal) > s.MaxLength {
				t.Fatalf("%s: sequence %d has other samples without times", clocks, i)
			}
			class := int(ex.Targets[0])
			other := class + 1
			if other == 8 {
				other = class - 1
			}
			if right, wrong := misfit(signal, times, how.hertz(class, 8), how.end),
				misfit(signal, times, how.hertz(other, 8), how.end); right > 1e-6 || wrong < 1e-3 {
				t.Errorf("%s: sequence %d is off by %g from its frequency, by %g from another", clocks, i, right, wrong)
			}
		}
		if mixed := gaps[1] > 0 && gaps[100] > 0 && len(gaps) == 2; mixed != (clocks == "mixed") || gaps[1] == 0 {
			t.Errorf("%s: found the times %v between samples", clocks, gaps)
		}
		if !reflect.DeepEqual(s.Train, open("both").Train) {
			t.Errorf("%s: the data changes", clocks)
		}
	}
}

// misfit returns the part of a signal that remains after a least-squares fit of e^(-t/end)·(a cos + b sin)(2π f t).
func misfit(signal []float32, times []float64, f, end float64) float64 {
	var cc, cs, ss, xc, xs, xx float64
	for i, t := range times {
		size, x := math.Exp(-t/end), float64(signal[i])
		c, s := size*math.Cos(2*math.Pi*f*t), size*math.Sin(2*math.Pi*f*t)
		cc, cs, ss, xc, xs, xx = cc+c*c, cs+c*s, ss+s*s, xc+x*c, xs+x*s, xx+x*x
	}
	det := cc*ss - cs*cs
	a, b := (xc*ss-xs*cs)/det, (xs*cc-xc*cs)/det
	return (xx - a*xc - b*xs) / xx
}
