package optim

import (
	"fmt"
	"math"
)

// Schedule defines the factor of the learning rate at every step: a linear warmup, then a decay.
type Schedule struct {
	Kind     string  // constant, linear, cosine
	Warmup   int     // steps of the linear warmup
	Total    int     // the step at which the decay ends
	MinRatio float64 // the factor at the end of the decay
}

// Schedules lists the kinds of a Schedule.
var Schedules = []string{"cosine", "linear", "constant"}

// Validate returns an error if the kind does not exist.
func (s Schedule) Validate() error {
	for _, k := range Schedules {
		if s.Kind == k {
			return nil
		}
	}
	return fmt.Errorf("found schedule %q, want one of %q", s.Kind, Schedules)
}

// Factor returns the learning-rate factor of a step, counted from 0. It is (step+1)/Warmup during the warmup. Then it
// falls from 1 to MinRatio along a half cosine or a line, or stays 1.
func (s Schedule) Factor(step int) float64 { return s.At(float64(step)) }

// At returns Factor at a fractional step, for a run whose progress is measured by time.
func (s Schedule) At(step float64) float64 {
	if step < float64(s.Warmup) {
		return min(1, (step+1)/float64(s.Warmup))
	}
	if s.Kind == "constant" || s.Total <= s.Warmup {
		return 1
	}
	done := math.Min(1, (step-float64(s.Warmup))/float64(s.Total-s.Warmup))
	if s.Kind == "linear" {
		return 1 - (1-s.MinRatio)*done
	}
	return s.MinRatio + (1-s.MinRatio)*0.5*(1+math.Cos(math.Pi*done))
}
