package serve

import (
	"testing"
	"time"
)

// TestAllowance checks that a quota refills over time, up to a minute's worth, also after more was taken than was left.
func TestAllowance(t *testing.T) {
	now := time.Now()
	a := quota{perMinute: 60}
	for _, c := range []struct {
		after      time.Duration
		take, left float64
		wait       time.Duration
	}{
		{0, 0, 60, 0}, {0, 100, -40, 41 * time.Second}, {41 * time.Second, 0, 1, 0}, {time.Hour, 0, 60, 0},
	} {
		now = now.Add(c.after)
		a.fill(now)
		a.left -= c.take
		if wait := a.until(1).Round(time.Millisecond); a.left-c.left > 1e-6 || c.left-a.left > 1e-6 || wait != c.wait {
			t.Errorf("left %v after a wait of %v, want %v and %v", a.left, wait, c.left, c.wait)
		}
	}
}
