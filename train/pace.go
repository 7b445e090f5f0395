package train

import "time"

// How often a run saves: first after firstSave, and then so seldom that saving takes at most one part in saveShare of
// the time. A machine that dies again and again gets on if it lives a little longer than that.
const (
	firstSave = 5 * time.Second
	saveShare = 20
)

// pace says when it is time to save, whatever the number of updates.
type pace struct {
	now   func() time.Time
	saved time.Time     // or started
	cost  time.Duration // of the last save
}

func newPace() pace { return pace{now: time.Now, saved: time.Now()} }

// due reports whether enough time has gone since the last save.
func (p *pace) due() bool {
	return p.now().Sub(p.saved) >= max(firstSave, saveShare*p.cost)
}

// count starts the clock of a save and returns a function that stops it: the time is the cost of the save.
func (p *pace) count() (done func()) {
	start := p.now()
	return func() {
		p.saved = p.now()
		p.cost = p.saved.Sub(start)
	}
}
