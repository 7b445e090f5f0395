package fit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
)

// known reports whether a row has a value of a target.
func (it *item) known() bool {
	return slices.ContainsFunc(it.given, func(x float64) bool { return x == x })
}

// follow repeats the forecast of each series after each of its rows that has a number of a target. Rows without one
// contain what is known about the future, until the row itself arrives.
func (d *input) follow(ctx context.Context, visit func(p *Prediction) error) error {
	all, most := map[string][]item{}, 2*d.memory()
	past := map[string]*recent{}
	return d.each(ctx, func(key string, it item) error {
		items, there := all[key]
		if !there {
			if err := d.another(len(all), it.place); err != nil {
				return err
			}
			past[key] = &recent{p: d.p}
		}
		items, err := d.insert(items, it)
		if err != nil {
			return err
		}
		if len(items) > most {
			items = slices.Delete(items, 0, len(items)-most/2)
		}
		if all[key] = items; !it.known() {
			return nil
		}
		return d.sequence(items, past[key], visit)
	})
}

// insert inserts a row after the rows of its series that are not later. Later rows must be future rows. A future row
// with the same time is replaced.
func (d *input) insert(items []item, it item) ([]item, error) {
	at := len(items)
	for at > 0 && it.time <= items[at-1].time && !items[at-1].known() {
		at--
	}
	if at > 0 && it.time <= items[at-1].time {
		return nil, d.errTime(&it, items[at-1].time)
	}
	if at < len(items) && items[at].time == it.time {
		it.n = items[at].n
		items[at] = it
		return items, nil
	}
	if at > 0 {
		it.n = items[at-1].n + 1
	}
	items = slices.Insert(items, at, it)
	for i := at + 1; i < len(items); i++ { // their index increases
		items[i].n++
	}
	return items, nil
}

// seriesText returns the name of a series, or a description if it has no name.
func seriesText(name string) string {
	if name == "" {
		return "the series"
	}
	return fmt.Sprintf("the series %q", name)
}

// errTime returns the error for a row whose time is not after that of the previous row.
func (d *input) errTime(it *item, before float64) error {
	return &table.RowError{Place: it.place, Column: d.p.Time.Name, Text: fmt.Sprintf("found the time %s, "+
		"which is not after that of the row before, want times that rise within a series%s", timeText(it.time),
		d.r.SummerTime(d.time, before, it.time))}
}

// forecast predicts the rows after the last one of a series that has a number for a target. Later rows contain what is
// known about the future.
func (d *input) forecast(items []item, step float64, past *recent, visit func(p *Prediction) error) error {
	p, width := d.p, d.p.width()
	targets := p.targets()
	now := len(items) // after the last known row
	for now > 0 && !items[now-1].known() {
		now--
	}
	if now < 1 {
		return &table.RowError{Place: items[0].place, Column: p.Columns[targets[0]].Name,
			Text: fmt.Sprintf("found no number in %s, want some", seriesText(items[0].series))}
	}
	if now < p.Lookback {
		d.onceOf("short "+items[0].series, fmt.Sprintf("%s: found %d rows, want %d, as many as the network looks "+
			"back: the others count as missing", seriesText(items[0].series), now, p.Lookback))
	}
	if !(step > 0) {
		step = p.Step
	}
	last := items[now-1]
	rows := make([]float32, 0, (p.Lookback+p.Horizon)*width)
	empty := func(time float64) {
		for range p.Columns {
			rows = append(rows, float32(math.NaN()))
		}
		if p.Time != nil {
			rows = appendTime(rows, time)
		}
	}
	for k := now - p.Lookback; k < 0; k++ {
		empty(items[0].time + float64(k)*step)
	}
	from := max(0, now-p.Lookback)
	rows = rowsOf(rows, items[from:now])
	given := make([]float64, p.Horizon) // times of the future rows
	for h := range p.Horizon {
		at := last.time + float64(h+1)*step
		if month := step > 27*day && step < 32*day && p.Time != nil; month {
			at = monthsLater(last.time, h+1)
		}
		if h > 0 && at <= given[h-1] { // the given future rows may be further apart
			at = given[h-1] + step
		}
		if now+h < len(items) {
			rows, at = append(rows, items[now+h].row...), items[now+h].time
		} else {
			empty(at)
			for i := range p.Columns {
				if p.Columns[i].Known {
					d.once(fmt.Sprintf("column %s is known beforehand, but the data ends with the series: "+
						"rows to come, with a value of it and none of the target, would make the forecast better",
						p.Columns[i].Name))
				}
			}
		}
		given[h] = at
	}
	if err := d.lookBack(items[:now], past); err != nil {
		return err
	}
	wide := past.widths(last.n + 1)
	e, outputs := d.enc, d.net.Config.Outputs
	y := d.ahead(items[:from], rows)
	if err := finite(y, last.place); err != nil {
		return err
	}
	for h := range p.Horizon {
		out := &Prediction{Series: last.series, Place: last.place, Time: given[h], Step: h + 1}
		for k := range targets {
			out.Quantiles = append(out.Quantiles, d.m.calibrated(e, y[h*outputs:(h+1)*outputs], k, h,
				e.ahead[k][h], wide))
		}
		if err := visit(out); err != nil {
			return err
		}
	}
	return nil
}

// ahead returns the outputs for the future rows. rows are those that a forecast sees and the future ones. before are
// all earlier rows.
func (d *input) ahead(before []item, rows []float32) []float32 {
	p := d.p
	if r := d.m.rival; r != nil {
		d.enc.from(rows[:p.Lookback*p.width()])
		more := max(0, min(len(before), r.rival.memory(p)-p.Lookback))
		return r.outputs(d.enc, append(rowsOf(nil, before[len(before)-more:]), rows...), p.Horizon)
	}
	var in model.Input
	d.asks(&in, rows)
	return d.net.Predict(in)[p.Lookback*d.net.Config.Outputs:]
}

// asks appends the inputs of a forecast for its rows: those that it sees and those to be predicted. The former
// determine offset and scale.
func (d *input) asks(in *model.Input, rows []float32) {
	p, e, width := d.p, d.enc, d.p.width()
	e.from(rows[:p.Lookback*width])
	before := math.NaN()
	for r := range p.Lookback + p.Horizon {
		row := rows[r*width : (r+1)*width]
		in.Values = e.row(in.Values, row, before, max(-1, r-p.Lookback), nil)
		before = p.time(row)
	}
	in.Lengths = append(in.Lengths, p.Lookback+p.Horizon)
}

// memory returns the number of rows of a series that a forecast may use.
func (d *input) memory() int {
	p := d.p
	n := p.Lookback + p.Horizon
	if r := d.m.rival; r != nil {
		n = max(p.Lookback, r.rival.memory(p)) + p.Horizon
	}
	if p.usesRecent() {
		n += p.history()
	}
	return n
}

// lookBack makes forecasts for recent rows of a series whose horizon has passed, and stores the errors.
func (d *input) lookBack(items []item, past *recent) error {
	p, outputs := d.p, d.net.Config.Outputs
	if !p.usesRecent() {
		return nil
	}
	first, now := items[0].n, items[len(items)-1].n+1
	past.drop(now)
	from := max(first+p.Lookback, now-p.history()+1)
	if n := len(past.at); n > 0 {
		from = max(from, past.at[n-1]+1)
	}
	var rows []float32
	for at := from; at <= now-p.Horizon; at++ {
		if !p.asked(at) {
			continue
		}
		seen := items[at-p.Lookback-first : at+p.Horizon-first]
		rows = rowsOf(rows[:0], seen)
		y := d.ahead(items[:at-p.Lookback-first], rows)
		if err := finite(y, items[at-first].place); err != nil {
			return err
		}
		off := p.newOff()
		for h := range p.Horizon {
			for k, truth := range seen[p.Lookback+h].given {
				if truth == truth {
					p.score(off, k, h, truth, d.m.learnt(d.enc, y[h*outputs:(h+1)*outputs], k, d.enc.ahead[k][h]))
				}
			}
		}
		past.add(at, off)
	}
	return nil
}
