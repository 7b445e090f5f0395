package cluster

import (
	"testing"
	"time"
)

// TestExchangeCost checks that the cost is the time of the clock, for each byte that two members send in 8 exchanges of
// 4 MiB.
func TestExchangeCost(t *testing.T) {
	defer func(was int) { chunk = was }(chunk)
	chunk = 1 << 16 // as in programs
	for _, step := range []time.Duration{0, time.Second} {
		var now time.Duration
		clock := func() time.Duration { now += step; return now }
		want := step.Seconds() / (2 * 8 * 4 << 20)
		if cost, err := ExchangeCost(t.Context(), clock); cost != want || err != nil {
			t.Errorf("with %s between: %g s a byte, %v, want %g", step, cost, err, want)
		}
	}
}
