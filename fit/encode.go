package fit

import (
	"math"
	"time"

	"github.com/hippo-ssm/hippo/table"
)

// calendar maps the names of the calendar's cycles to functions that return the elapsed part of the cycle.
var calendar = map[string]func(t time.Time) float64{ // the part of the cycle that has gone
	"hour": func(t time.Time) float64 {
		return (float64(t.Hour()) + (float64(t.Minute())+float64(t.Second())/60)/60) / 24
	},
	"weekday":          func(t time.Time) float64 { return float64((int(t.Weekday())+6)%7) / 7 },
	"day of the month": func(t time.Time) float64 { return float64(t.Day()-1) / 31 },
	"day of the year":  func(t time.Time) float64 { return float64(t.YearDay()-1) / 366 },
}

// cycles lists the names in calendar, in order, with their lengths in seconds.
var cycles = []struct {
	name    string
	seconds float64
}{{"hour", day}, {"weekday", 7 * day}, {"day of the month", 30.4 * day}, {"day of the year", 365.25 * day}}

const day = 24 * 3600.0

// calendarOf returns the cycles that are visible in rows with the given step, and of which the data has at least two.
func calendarOf(step, span float64) (names []string) {
	for _, c := range cycles {
		if c.name != "day of the month" && step > 0 && step < c.seconds && span >= 2*c.seconds {
			names = append(names, c.name)
		}
	}
	return names
}

// encoder converts stored rows to the inputs of a network.
type encoder struct {
	p    *Plan
	zone *time.Location
	// last and scale are, for each column, the offset and the scale of the numbers in a forecast's window. If nil, they
	// are the mean and the deviation of the training part.
	last, scale []float64
	// ahead is, for each target, the forecast to which the network's output is added, minus last.
	ahead [][]float64
	past  []float64
}

func newEncoder(p *Plan) (*encoder, error) {
	zone, err := time.LoadLocation(p.Zone)
	if p.Time != nil && p.Time.Days() {
		zone = time.UTC // as when they are read
	}
	return &encoder{p: p, zone: zone}, err
}

// scaled returns a number of column i on the network's scale.
func (e *encoder) scaled(i int, x float64) float64 {
	c := &e.p.Columns[i]
	if e.last != nil && c.Target {
		return (x - e.last[i]) / e.scale[i]
	}
	return (x - c.Mean) / c.Deviation
}

// row appends the inputs of a row. before is the time of the previous row, NaN for none. For a row to be predicted,
// only what is known beforehand is used. hidden columns are treated as missing; it may be nil.
//
// step is the step of the horizon for a row to be predicted, whose inputs include the forecast to which the network's
// output is added. It is -1 for other rows.
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

// mostGap is the logarithm of the maximum number of steps that a recurrence advances at once, 100. Mamba weights an
// input in proportion to the time since the previous row, so after a long pause it would outweigh all others.
var mostGap = float32(math.Log(100))

// mostSteps is the maximum logarithm of the number of steps from one row to the next.
const mostSteps = 10

// logSteps returns the logarithm of a time in steps, 0 if it is unknown.
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
	known := math.Abs(now) < 1e12 // not NaN, and in a year that the calendar supports
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

// smallest is the minimum scale of a window's numbers, as a part of the column's deviation.
const smallest = 0.05

// from sets the offset of the numbers of a window to the last known ones of the rows that a forecast sees. If the plan
// says so, it sets their scale to the deviation of these rows.
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

// target returns a number of target column i on the network's scale. back is its inverse. now is the number in the
// current row for tasks that predict the next row, and ahead for a forecast.
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
