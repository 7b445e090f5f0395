// Package logs generates logs with faults in known lines, to test fault detectors. It imports no package of hippo.
package logs

import (
	"math/rand/v2"
	"slices"
	"time"
)

// The kinds of faults.
const (
	Word        = "word"        // a word that no ordinary line has
	Combination = "combination" // known words in an unknown combination
	Missing     = "missing"     // a step is left out: the step after it is marked
	Order       = "order"       // two steps are swapped: both are marked
	Burst       = "burst"       // an ordinary line is repeated many times at once: all but the first are marked
)

// Faults lists the kinds of faults. The last three do not show in a single line, only in the light of the lines before
// it.
var Faults = []string{Word, Combination, Missing, Order, Burst}

// Kinds lists the kinds of logs.
var Kinds = []string{"web", "syslog", "app"}

// Line is a line of a log, without its newline.
type Line struct {
	Text  string
	Fault string // "" for none
	Event int    // number of the fault that the line belongs to, from 1; 0 for none
}

// burst is the number of times that the line of a burst is repeated.
const burst = 6

// step is a line of a unit of work, which is a visit, a login or a job.
type step struct {
	text  func(now time.Time) string
	again int    // number of times that the line is repeated at once
	fault string // fault that the line shows, "" for none
	event int
}

// maker makes the units of work of a kind of log.
type maker struct {
	rng *rand.Rand
}

// Generate returns n lines of a kind of log, or a few more. Two units of work overlap at any time: after one line in
// ten, the other unit continues. The fraction rate of all units has a fault. All kinds of faults are equally frequent.
func Generate(kind string, seed uint64, n int, rate float64) (lines []Line) {
	m := &maker{rng: rand.New(rand.NewPCG(seed, uint64(slices.Index(Kinds, kind))))}
	unit := map[string]func(fault string) []step{"web": m.visit, "syslog": m.login, "app": m.job}[kind]
	now := time.Date(2026, 3, 2, m.rng.IntN(24), 0, 0, 0, time.UTC)
	events := 0
	var open [][]step
	turn := 0 // index of the unit whose step is next, mostly the same as for the last line
	for len(lines) < n || len(open) > 0 {
		for len(open) < 2 && len(lines) < n {
			fault := ""
			if m.rng.Float64() < rate {
				fault = Faults[m.rng.IntN(len(Faults))]
				events++
			}
			steps := unit(fault)
			m.disturb(steps, fault)
			if fault == Missing {
				steps = slices.DeleteFunc(steps, func(s step) bool { return s.text == nil })
			}
			for i := range steps {
				if steps[i].fault != "" {
					steps[i].event = events
				}
			}
			open = append(open, steps)
		}
		if turn >= len(open) || m.rng.Float64() < 0.1 {
			turn = m.rng.IntN(len(open))
		}
		i := turn
		s := open[i][0]
		for k := range s.again + 1 {
			now = now.Add(time.Duration(m.rng.IntN(14000)+1) * time.Millisecond)
			line := Line{Text: s.text(now), Fault: s.fault, Event: s.event}
			if s.fault == Burst && k == 0 {
				line.Fault, line.Event = "", 0
			}
			lines = append(lines, line)
		}
		if open[i] = open[i][1:]; len(open[i]) == 0 {
			open = slices.Delete(open, i, i+1)
		}
	}
	return lines
}

// disturb makes the faults that span several lines. A unit has at least four steps, and no two adjacent ones are alike.
func (m *maker) disturb(steps []step, fault string) {
	k := 1 + m.rng.IntN(len(steps)-3)
	switch fault {
	case Missing:
		steps[k].text, steps[k+1].fault = nil, Missing
	case Order:
		steps[k], steps[k+1] = steps[k+1], steps[k]
		steps[k].fault, steps[k+1].fault = Order, Order
	case Burst:
		steps[k].again, steps[k].fault = burst, Burst
	}
}

// one returns one of words, the first ones more often: the probability of word i of n is proportional to 1/(i+1).
func (m *maker) one(words ...string) string {
	sum := 0.0
	for i := range words {
		sum += 1 / float64(i+1)
	}
	x := m.rng.Float64() * sum
	for i, w := range words {
		if x -= 1 / float64(i+1); x < 0 {
			return w
		}
	}
	return words[0]
}

// strange returns a word that no ordinary line has.
func (m *maker) strange() string {
	b := make([]byte, 5+m.rng.IntN(6))
	for i := range b {
		b[i] = byte('a' + m.rng.IntN(26))
	}
	return string(b)
}
