package train

import "time"

// A run first saves after firstSave, and then so rarely that saving takes at most 1/saveShare of the time. So a machine
// that crashes again and again still makes progress if it runs a little longer than that interval.
const (
	firstSave = 5 * time.Second
	saveShare = 20
)

// pace decides by time when to save, whatever the number of updates.
type pace struct {
	now   func() time.Time
	saved time.Time     // time of the last save, or of the start
	cost  time.Duration // of the last save
}

func newPace() pace { return pace{now: time.Now, saved: time.Now()} }

// due reports whether enough time has passed since the last save.
func (p *pace) due() bool {
	return p.now().Sub(p.saved) >= max(firstSave, saveShare*p.cost)
}

// count starts to time a save and returns a function that ends it. The time between is the cost of the save.
func (p *pace) count() (done func()) {
	start := p.now()
	return func() {
		p.saved = p.now()
		p.cost = p.saved.Sub(start)
	}
}
