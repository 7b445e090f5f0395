package optim

import (
	"math"
	"testing"
)

// TestSchedules checks schedules at known points: the first step, the end of the warmup, the middle and the end of the
// decay, and after it.
func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		s    Schedule
		want map[int]float64
	}{
		{Schedule{"cosine", 10, 110, 0.1}, map[int]float64{0: 0.1, 4: 0.5, 9: 1, 10: 1, 60: 0.55, 110: 0.1, 500: 0.1,
			35: 0.1 + 0.9*0.5*(1+math.Cos(math.Pi/4))}},
		{Schedule{"linear", 10, 110, 0}, map[int]float64{0: 0.1, 9: 1, 10: 1, 35: 0.75, 60: 0.5, 110: 0, 500: 0}},
		{Schedule{"linear", 0, 100, 0.5}, map[int]float64{0: 1, 50: 0.75, 100: 0.5}},
		{Schedule{"constant", 4, 100, 0.1}, map[int]float64{0: 0.25, 3: 1, 4: 1, 99: 1, 1000: 1}},
		// A warmup longer than the run.
		{Schedule{"cosine", 100, 50, 0.1}, map[int]float64{0: 0.01, 49: 0.5, 99: 1, 100: 1}},
		{Schedule{"cosine", 0, 0, 0.1}, map[int]float64{0: 1, 1: 1}},
	} {
		if err := c.s.Validate(); err != nil {
			t.Errorf("%+v: %v", c.s, err)
		}
		for step, want := range c.want {
			if got := c.s.Factor(step); math.Abs(got-want) > 1e-12 {
				t.Errorf("%+v at step %d: got %v, want %v", c.s, step, got, want)
			}
		}
	}
}

// TestBetweenSteps checks that the factor rises linearly during the warmup, and stays at its peak between the last step
// of the warmup and the first after it.
func TestBetweenSteps(t *testing.T) {
	s := Schedule{"linear", 4, 8, 0}
	for at, want := range map[float64]float64{0.5: 1.5 / 4, 2.25: 3.25 / 4, 3.5: 1, 3.99: 1, 6: 0.5, 7.5: 0.125} {
		if got := s.At(at); math.Abs(got-want) > 1e-12 {
			t.Errorf("at %v: found %v, want %v", at, got, want)
		}
	}
}

// TestSchedulesFall checks that after the warmup no factor is larger than the one before, and none is below the final
// one.
func TestSchedulesFall(t *testing.T) {
	for _, kind := range Schedules {
		s := Schedule{kind, 7, 100, 0.1}
		for i := 1; i < 150; i++ {
			a, b := s.Factor(i-1), s.Factor(i)
			if rises := i < 7; rises && b <= a || !rises && b > a || !rises && b < 0.1-1e-12 {
				t.Errorf("%s: %v at step %d, %v at step %d", kind, a, i-1, b, i)
			}
		}
	}
	if err := (Schedule{Kind: "exponential"}).Validate(); err == nil {
		t.Error("an unknown kind is valid")
	}
}
