package train

import (
	"testing"
	"time"
)

// TestPace checks that a run with updates of any length saves within five seconds of work or one update, and that
// saving takes at most a twentieth of the time.
func TestPace(t *testing.T) {
	for _, c := range []struct{ update, save time.Duration }{
		{10 * time.Millisecond, time.Millisecond},
		{time.Second, 100 * time.Millisecond},
		{time.Second, 3 * time.Second},
		{2 * time.Minute, time.Second},
	} {
		at := time.Unix(0, 0)
		p := pace{now: func() time.Time { return at }, saved: at}
		var first, saving time.Duration
		for at.Sub(time.Unix(0, 0)) < 2*time.Hour {
			at = at.Add(c.update)
			if !p.due() {
				continue
			}
			done := p.count()
			if first == 0 {
				first = at.Sub(time.Unix(0, 0))
			}
			at = at.Add(c.save)
			saving += c.save
			done()
		}
		if most := max(c.update, firstSave); first == 0 || first > most {
			t.Errorf("updates of %v: first saved after %v, want at most %v", c.update, first, most)
		}
		share := float64(saving) / float64(2*time.Hour)
		if share > 1./saveShare {
			t.Errorf("updates of %v, saves of %v: saving takes %.3f of the time", c.update, c.save, share)
		}
	}
}
