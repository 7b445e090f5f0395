package fit

import (
	"math"
	"time"

	"github.com/hippo-ssm/hippo/table"
)

// calendar are the cycles of the calendar that can go in, by name.
var calendar = map[string]func(t time.Time) float64{ // the part of the cycle that has gone
	"hour": func(t time.Time) float64 {
		return (float64(t.Hour()) + (float64(t.Minute())+float64(t.Second())/60)/60) / 24
	},
	"weekday":          func(t time.Time) float64 { return float64((int(t.Weekday())+6)%7) / 7 },
	"day of the month": func(t time.Time) float64 { return float64(t.Day()-1) / 31 },
	"day of the year":  func(t time.Time) float64 { return float64(t.YearDay()-1) / 366 },
}

// cycles are the names of calendar with the seconds that each takes, in order.
var cycles = []struct {
	name    string
	seconds float64
}{{"hour", day}, {"weekday", 7 * day}, {"day of the month", 30.4 * day}, {"day of the year", 365.25 * day}}

const day = 24 * 3600.0

// calendarOf are the cycles that rows of a step show, of which the data has seen two or more.
func calendarOf(step, span float64) (names []string) {
	for _, c := range cycles {
		if c.name != "day of the month" && step > 0 && step < c.seconds && span >= 2*c.seconds {
			names = append(names, c.name)
		}
	}
	return names
}

// encoder turns stored rows into the inputs of a network.
type encoder struct {
	p    *Plan
	zone *time.Location
	// last and scale are, of each column, what a number of a forecast's window is measured from and by; nil for the
	// mean and the deviation of the training part.
	last, scale []float64
	// ahead is, of each target, how far the forecast that the network's is added to is above last.
	ahead [][]float64
	past  []float64
}

func newEncoder(p *Plan) (*encoder, error) {
	zone, err := time.LoadLocation(p.Zone)
	if p.Time != nil && p.Time.Days() {
		zone = time.UTC // as they are read
	}
	return &encoder{p: p, zone: zone}, err
}

// scaled is a number of column i as it goes into the network.
func (e *encoder) scaled(i int, x float64) float64 {
	c := &e.p.Columns[i]
	if e.last != nil && c.Target {
		return (x - e.last[i]) / e.scale[i]
	}
	return (x - c.Mean) / c.Deviation
}

// row appends the inputs of a row. before is the time of the row before it, NaN for none. Of a row that is to be
// predicted only what is known beforehand goes in. hidden columns go in as missing ones do; it may be nil.
//
// Of a row that is asked, the forecast that the network's is added to goes in. step is that of the horizon, -1 for a
// row that is not asked.
func (e *encoder) row(dst []float32, row []float32, before float64, step int, hidden []bool) []float32 {
	p, asked, target := e.p, step >= 0, -1
	for i := range p.Columns {
		c := &p.Columns[i]
		if c.Target {
			target++
		}
		if !c.In {
			continue
		}
		x := row[i]
		away := x != x || asked && !c.Known || hidden != nil && hidden[i]
		if c.Kind == table.Category {
			for k := range c.Classes {
				dst = append(dst, bit(!away && int(x) == k))
			}
			continue
		}
		y := 0.0
		switch {
		case !away:
			y = e.scaled(i, float64(x))
		case asked && c.Target:
			y = e.ahead[target][step] / e.scale[i]
		}
		dst = append(dst, float32(y))
		if c.Gaps {
			dst = append(dst, bit(away && !asked))
		}
	}
	now := p.time(row)
	if p.timeGoesIn() {
		dst = append(dst, logSteps(now-before, p.Step))
	}
	dst = e.calendar(dst, now)
	if p.Task == Forecast {
		dst = append(dst, bit(asked))
	}
	if p.timeSteps() {
		dst = append(dst, min(mostGap, logSteps(now-before, p.Step)))
	}
	return dst
}

// mostGap is the logarithm of the most steps that a recurrence advances at once, 100: an input of Mamba counts in
// proportion to the time since the row before, and would drown all others after a long pause.
var mostGap = float32(math.Log(100))

// mostSteps bounds how much later a row may seem to be than the one before, as a logarithm.
const mostSteps = 10

// logSteps is the logarithm of a time in steps, 0 if it is not known.
func logSteps(seconds, step float64) float32 {
	if !(seconds > 0 && step > 0) {
		return 0
	}
	return float32(min(mostSteps, max(-mostSteps, math.Log(seconds/step))))
}

// calendar appends the phases of a time in the cycles of the calendar.
func (e *encoder) calendar(dst []float32, now float64) []float32 {
	if len(e.p.Calendar) == 0 {
		return dst
	}
	known := math.Abs(now) < 1e12 // not NaN, and a year that has a calendar
	var at time.Time
	if known {
		at = time.Unix(int64(now), 0).In(e.zone)
	}
	for _, name := range e.p.Calendar {
		cycle := calendar[name]
		if !known || cycle == nil {
			dst = append(dst, 0, 0)
			continue
		}
		sin, cos := math.Sincos(2 * math.Pi * cycle(at))
		dst = append(dst, float32(sin), float32(cos))
	}
	return dst
}

func bit(x bool) float32 {
	if x {
		return 1
	}
	return 0
}

// smallest is the least part of a column's deviation that numbers of a window are measured by.
const smallest = 0.05

// from sets what the numbers of a window are measured from: the last known ones of the rows that a forecast sees, and,
// where the plan says so, by their deviation.
func (e *encoder) from(seen []float32) {
	p, width := e.p, e.p.width()
	e.last, e.scale = grow(e.last, len(p.Columns)), grow(e.scale, len(p.Columns))
	for k, i := range p.targets() {
		c := &p.Columns[i]
		last, n, sum, square := c.Mean, 0.0, 0.0, 0.0
		e.past = e.past[:0]
		for at := i; at < len(seen); at += width {
			if x := float64(seen[at]); x == x {
				last, n = x, n+1
				sum += x - c.Mean
				square += (x - c.Mean) * (x - c.Mean)
			}
			e.past = append(e.past, last)
		}
		e.last[i], e.scale[i] = last, c.Deviation
		if p.Local && n > 0 {
			e.scale[i] = max(smallest*c.Deviation, math.Sqrt(max(0, square/n-sum/n*sum/n)))
		}
		if k == len(e.ahead) {
			e.ahead = append(e.ahead, make([]float64, p.Horizon))
		}
		if p.Linear != nil {
			p.Linear.ahead(k, e.past, e.ahead[k])
		}
	}
}

func grow(x []float64, n int) []float64 {
	if len(x) < n {
		return make([]float64, n)
	}
	return x
}

// target returns a number of target column i on the network's scale; back is its inverse. now is the number in the
// current row for tasks that predict the next, and ahead for a forecast.
func (e *encoder) target(i int, x, now float64) float64 {
	if e.p.predictsNext() {
		return (x - now) / e.p.Columns[i].Change
	}
	if e.last != nil {
		x -= now
	}
	return e.scaled(i, x)
}

// back converts an output of the network to a number in the units of the data.
func (e *encoder) back(i int, y, now float64) float64 {
	c := &e.p.Columns[i]
	switch {
	case e.p.predictsNext():
		return y*c.Change + now + c.Base
	case e.last != nil:
		return c.number(y*e.scale[i] + e.last[i] + now)
	}
	return y*c.Deviation + c.Mean + c.Base
}
