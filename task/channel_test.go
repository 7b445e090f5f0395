package task

import (
	"math"
	"testing"
)

// TestChannels checks that the scaling that a set describes is the scaling of its examples. Without the scaling, the
// inputs and targets of the training split span exactly the ranges of their channels, and one known example gives its
// raw numbers.
func TestChannels(t *testing.T) {
	open := func(task *Task, dir string, set func(any)) *Set {
		t.Helper()
		o := task.Options()
		set(o)
		s, err := task.Open(t.Context(), dir, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ett := ettDir(t)
	sets := map[string]*Set{
		"smnist": open(SMNIST, mnistDir(t), func(o any) { o.(*mnistOptions).Valid = 2 }),
		"pathfinder": open(Pathfinder, "", func(x any) {
			o := x.(*PathfinderOptions)
			o.Generate, o.Train, o.Test = true, 3, 1
		}),
		"etth1": open(ETTh1, ett, func(x any) {
			o := x.(*ETTOptions)
			o.Horizon, o.Lookback, o.Stamps = 24, 48, "all"
		}),
		"absolute": open(ETTh1, ett, func(x any) {
			o := x.(*ETTOptions)
			o.Horizon, o.Lookback, o.Relative, o.Multivariate = 24, 48, false, true
		}),
	}
	for name, s := range sets {
		if len(s.Inputs) != s.Channels || s.Numbers && len(s.Results) != s.Outputs ||
			!s.Numbers && len(s.Classes) != s.Outputs {
			t.Errorf("%s: %d inputs, %d results, %d classes described", name, len(s.Inputs),
				len(s.Results), len(s.Classes))
			continue
		}
		var ex Example
		for i := 0; i < s.Train.Len(); i += 1 + s.Train.Len()/50 {
			s.Train.Example(i, &ex)
			inside(t, name, s.Inputs, ex.Values)
			inside(t, name, s.Results, ex.Numbers)
		}
	}
	// Pixel 17 of the first image and the oil temperature of the first hour.
	images, _ := mnistPair(8)
	var ex Example
	sets["smnist"].Train.Example(0, &ex)
	if c, got := sets["smnist"].Inputs[0],
		float64(ex.Values[17]); math.Abs(got*c.Deviation+c.Mean-float64(images[16+17])) > 1e-4 {
		t.Errorf("pixel 17 is %v, unscaled %v; want %d", got, got*c.Deviation+c.Mean, images[16+17])
	}
	sets["absolute"].Train.Example(0, &ex)
	if c, got := sets["absolute"].Inputs[6], float64(ex.Values[6]); c.Name != "OT" ||
		math.Abs(got*c.Deviation+c.Mean-30) > 1e-4 {
		t.Errorf("%s is %v, unscaled %v; want 30", c.Name, got, got*c.Deviation+c.Mean)
	}
}

// inside checks that rows of scaled numbers are within the ranges of their channels.
func inside(t *testing.T, name string, channels []Channel, values []float32) {
	t.Helper()
	for i, v := range values {
		c := channels[i%len(channels)]
		x, room := float64(v)*c.Deviation+c.Mean, 1e-5*(c.High-c.Low)
		if c.High <= c.Low || x < c.Low-room || x > c.High+room {
			t.Fatalf("%s: %s: found %v, want %v to %v", name, c.Name, x, c.Low, c.High)
		}
	}
}
