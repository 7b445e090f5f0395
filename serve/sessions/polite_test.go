package sessions

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestPoliteWorkRests checks that work takes a quarter of the time while requests run, and all of it when they have
// ended, and that canceled work does not wait.
func TestPoliteWorkRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		others := func() bool { return time.Since(begun) < 250*time.Millisecond }
		ctx, cancel := context.WithCancel(t.Context())
		p := &polite{Context: ctx, others: others, since: begun}
		at := func(want time.Duration) {
			t.Helper()
			if err := p.Err(); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(begun); got != want {
				t.Errorf("found %v, want %v", got, want)
			}
		}
		const ms = time.Millisecond
		for _, one := range []struct{ Job, ends time.Duration }{
			{ms, ms}, // too short to rest
			{19 * ms, 80 * ms}, {20 * ms, 160 * ms},
			{40 * ms, 250 * ms}, // the requests end
			{40 * ms, 290 * ms},
		} {
			time.Sleep(one.Job)
			at(one.ends)
		}
		p.others = func() bool { return true }
		time.Sleep(10 * ms)
		go func() {
			time.Sleep(time.Millisecond)
			cancel()
		}()
		if err := p.Err(); err == nil || time.Since(begun) > 310*time.Millisecond {
			t.Errorf("found the error %v after %v", err, time.Since(begun))
		}
	})
}
