package fit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
)

// PredictOptions say how to predict.
type PredictOptions struct {
	table.Options
	// Live predicts each row as it comes, and reads no further before its prediction has been taken. Else rows are
	// computed some at a time. It is for tasks with a prediction at each row, of networks that do not look ahead.
	Live bool
	// Note is told what a user should know: columns that are not there, other rates, numbers far from those of
	// training. It may be nil.
	Note func(text string)
}

// Prediction is what a network says of a row, of a sequence, or of a row to come.
type Prediction struct {
	Series string
	Place  table.Place // of the row; of the first row of a sequence
	Time   float64     // seconds since 1970; NaN where it is not known
	Step   int         // of a forecast, from 1; else 0

	// Quantiles are those of each target, at the levels of the plan, in the units of the data.
	Quantiles [][]float64
	// Given are the numbers of the targets as the data has them, NaN where it has none.
	Given []float64
	// Probabilities are those of the classes.
	Probabilities []float64
	Score         float64 // of an anomaly
	Unusual       bool    // Score is above that of almost all rows of training
}

// Class is the most probable class, with its probability.
func (p *Prediction) Class() (class int, probability float64) {
	class = largest(p.Probabilities)
	return class, p.Probabilities[class]
}

// Predict calls visit with what the model says of data: files, a folder, or for "-" what stdin reads. What visit gets
// is its own. Errors of rows end it.
func (m *Model) Predict(ctx context.Context, paths []string, stdin io.Reader, opt PredictOptions,
	visit func(p *Prediction) error) error {
	d, err := m.open(paths, stdin, opt)
	if err != nil {
		return err
	}
	defer d.r.Close()
	defer d.tellNotes()
	if m.plan.whole() || m.plan.Task == Forecast || m.plan.Task == Fill {
		if opt.Live {
			return fmt.Errorf("stream: found the task %s, which sees a whole series first; want steps, next or anomaly",
				m.plan.Task)
		}
		return d.sequences(ctx, visit)
	}
	return d.rows(ctx, visit)
}

// input is new data that is being read.
type input struct {
	m       *Model
	p       *Plan
	r       *table.Reader
	opt     PredictOptions
	classes []map[string]int
	series  int // of the reader's columns, -1 for none
	time    int
	told    map[string]bool
	tell    func(text string)
	undo    func()
}

// open opens data and finds the columns of the plan in it. Targets need not be there where they do not go in.
func (m *Model) open(paths []string, stdin io.Reader, opt PredictOptions) (*input, error) {
	p := m.plan
	d := &input{m: m, p: p, opt: opt, told: map[string]bool{}, series: -1, time: -1, tell: opt.Note}
	if d.tell == nil {
		d.tell = func(string) {}
	}
	var want []table.Column
	for i := range p.Columns {
		c := p.Columns[i].Column
		c.Optional = !p.Columns[i].In
		want = append(want, c)
		known := map[string]int{}
		for k, name := range p.Columns[i].Classes {
			known[name] = k
		}
		d.classes = append(d.classes, known)
	}
	if p.Time != nil {
		d.time = len(want)
		c := *p.Time
		c.Optional = len(p.Calendar) == 0 && !p.Irregular
		want = append(want, c)
	}
	if p.Series != "" {
		d.series = len(want)
		want = append(want, table.Column{Name: p.Series, Kind: table.Category, Optional: true})
	}
	o := opt.Options
	o.Zone, o.Wide, o.Categories = p.Zone, p.Wide, nil
	var err error
	d.r, err = table.Open(paths, stdin, o, want)
	return d, err
}

// tellNotes tells how the data was read.
func (d *input) tellNotes() {
	for _, note := range d.r.Notes() {
		d.once(note)
	}
}

// once tells something that has not been told.
func (d *input) once(text string) {
	if !d.told[text] {
		d.told[text] = true
		d.tell(text)
	}
}

// item is a row of new data.
type item struct {
	series string
	place  table.Place
	time   float64
	step   float64
	row    []float32
	given  []float64
}

// next reads a row.
func (d *input) next(v *table.Values) (item, error) {
	if err := d.r.Next(v); err != nil {
		return item{}, err
	}
	it := item{series: v.Name, place: v.Place, time: math.NaN(), step: v.Step}
	if d.series >= 0 {
		it.series = v.Texts[d.series]
	}
	if d.time >= 0 {
		it.time = v.Numbers[d.time]
	}
	it.row = d.p.raw(nil, v, it.time, func(i int, text string) float32 { return d.class(v, i, text) })
	for i := range d.p.Columns {
		c := &d.p.Columns[i]
		if c.Target {
			it.given = append(it.given, v.Numbers[i])
		}
		if x := v.Numbers[i]; c.In && c.Kind == table.Number && x == x {
			d.checkRange(v, c, x)
		}
	}
	return it, nil
}

// checkRange tells of the first number of a column that is far from those of training.
func (d *input) checkRange(v *table.Values, c *Column, x float64) {
	room := (c.High - c.Low) / 2
	low, high := c.Low+c.Base, c.High+c.Base
	if x >= low-room && x <= high+room || room == 0 && x == low || d.told[c.Name] {
		return
	}
	d.told[c.Name] = true
	d.tell(fmt.Sprintf("%s, column %s: found %.6g, far from the %.6g to %.6g of training: what is predicted from that "+
		"means little", v.Place, c.Name, x, low, high))
}

// class is the number of a class of a column, NaN for one that training had not.
func (d *input) class(v *table.Values, i int, text string) float32 {
	n, ok := d.classes[i][text]
	if ok {
		return float32(n)
	}
	if c := &d.p.Columns[i]; text != "" && c.In && !d.told[c.Name] {
		d.told[c.Name] = true
		d.tell(fmt.Sprintf("%s, column %s: found %.40q, which training had not: it is taken for missing; known are %s",
			v.Place, c.Name, text, brief.List(c.Classes, ", ")))
	}
	return float32(math.NaN())
}

// A step is that of training if it differs by at most this part of it.
const sameStep = 0.02

// atRate has the network take rows that are step seconds apart.
func (d *input) atRate(step float64) {
	p := d.p
	if !(p.Step > 0 && step > 0) || math.Abs(step-p.Step) <= sameStep*p.Step || d.undo != nil {
		return
	}
	text := fmt.Sprintf("rows are %.6g seconds apart, %.6g in training: ", step, p.Step)
	if p.Task == Forecast || p.Irregular {
		d.once(text + "the forecast is one of rows, whatever time they stand for")
		return
	}
	d.undo = d.m.net.ScaleDt(step / p.Step)
	d.once(text + "the steps dt of the continuous systems are scaled by their ratio (other layers cannot be)")
}

// each calls visit with all rows and a key of the sequence and series that each is of. Errors: there is none.
func (d *input) each(ctx context.Context, visit func(key string, it item) error) error {
	var v table.Values
	for some := false; ; some = true {
		if err := ctx.Err(); err != nil {
			return err
		}
		it, err := d.next(&v)
		if errors.Is(err, io.EOF) && !some {
			return errors.New("found no rows, want some")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(fmt.Sprint(v.Sequence, " ", it.series), it)
		}
		if err != nil {
			return err
		}
	}
}

// sequences predicts series or sequences that are read whole.
func (d *input) sequences(ctx context.Context, visit func(p *Prediction) error) error {
	all, order := map[string][]item{}, []string{}
	emit := func(key string) error {
		items := all[key]
		delete(all, key)
		return d.sequence(items, visit)
	}
	before := ""
	err := d.each(ctx, func(key string, it item) error {
		if all[key] == nil {
			order = append(order, key)
			if d.series < 0 && before != "" { // sequences of files follow each other
				if err := emit(before); err != nil {
					return err
				}
				order = order[len(order)-1:]
			}
		}
		if d.p.Task == Forecast && len(all[key]) > 2*(d.p.Lookback+d.p.Horizon) {
			all[key] = slices.Delete(all[key], 0, len(all[key])-d.p.Lookback-d.p.Horizon)
		}
		all[key], before = append(all[key], it), key
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range order {
		if err := emit(key); err != nil {
			return err
		}
	}
	return nil
}

// sequence predicts from the rows of one series.
func (d *input) sequence(items []item, visit func(p *Prediction) error) error {
	var steps []float64
	for i := range items {
		if i > 0 && i <= firstSteps {
			steps = append(steps, items[i].time-items[i-1].time)
		}
	}
	step := median(steps)
	if d.time < 0 {
		step = items[0].step
	}
	d.atRate(step)
	if d.p.Task == Forecast {
		return d.forecast(items, step, visit)
	}
	var in model.Input
	before := math.NaN()
	for _, it := range items {
		in.Values = d.m.enc.row(in.Values, it.row, before, -1, nil)
		before = it.time
	}
	if err := d.m.net.Takes(len(items)); err != nil {
		return fmt.Errorf("%s: %w", items[0].place, err)
	}
	in.Lengths = []int{len(items)}
	y := d.m.net.Predict(in)
	if err := finite(y, items[0].place); err != nil {
		return err
	}
	if d.p.whole() {
		return visit(d.said(&items[0], y, nil))
	}
	width := d.m.net.Config.Outputs
	for i := range items {
		if err := visit(d.said(&items[i], y[i*width:(i+1)*width], nil)); err != nil {
			return err
		}
	}
	return nil
}

// said is what outputs of the network say of a row. now are the numbers that tasks go on from.
func (d *input) said(it *item, y []float32, now []float64) *Prediction {
	out := &Prediction{Series: it.series, Place: it.place, Time: it.time, Given: it.given}
	if _, ok := d.p.classes(); ok {
		out.Probabilities = softmax(y)
		return out
	}
	for k := range d.p.targets() {
		last := 0.0
		if now != nil {
			last = now[k]
		}
		out.Quantiles = append(out.Quantiles, d.m.quantiles(d.m.enc, y, k, 0, last))
	}
	return out
}

// forecast foretells the rows behind the last one of a series that has a number for a target. Rows behind that one tell
// what is known of the time to come.
func (d *input) forecast(items []item, step float64, visit func(p *Prediction) error) error {
	p, width := d.p, d.p.width()
	targets := p.targets()
	now := len(items) // behind the last known row
	for now > 0 && !slices.ContainsFunc(targets, func(i int) bool { x := items[now-1].row[i]; return x == x }) {
		now--
	}
	if now < 1 {
		return fmt.Errorf("%s: found no number of %s in the series %q, want some", items[0].place,
			p.Columns[targets[0]].Name,
			items[0].series)
	}
	if now < p.Lookback {
		d.once(fmt.Sprintf("series %q: found %d rows, want %d, as many as the network looks back: the others are "+
			"taken for "+
			"missing", items[0].series, now, p.Lookback))
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
	for _, it := range items[max(0, now-p.Lookback):now] {
		rows = append(rows, it.row...)
	}
	given := map[int]float64{}
	for h := range p.Horizon {
		at := last.time + float64(h+1)*step
		if month := step > 27*day && step < 32*day && p.Time != nil; month {
			at = monthsLater(last.time, h+1)
		}
		if now+h < len(items) {
			rows, at = append(rows, items[now+h].row...), items[now+h].time
		} else {
			empty(at)
			for i := range p.Columns {
				if p.Columns[i].Known {
					d.once(fmt.Sprintf("column %s is known beforehand, but the data ends with the series: rows to "+
						"come, with a "+
						"value of it and none of the target, would make the forecast better", p.Columns[i].Name))
				}
			}
		}
		given[h] = at
	}
	e := d.m.enc
	e.from(rows[:p.Lookback*width])
	var in model.Input
	before := math.NaN()
	for r := range p.Lookback + p.Horizon {
		row := rows[r*width : (r+1)*width]
		in.Values = e.row(in.Values, row, before, max(-1, r-p.Lookback), nil)
		before = p.time(row)
	}
	in.Lengths = []int{p.Lookback + p.Horizon}
	y, outputs := d.m.net.Predict(in), d.m.net.Config.Outputs
	y = y[p.Lookback*outputs:]
	if err := finite(y, last.place); err != nil {
		return err
	}
	for h := range p.Horizon {
		out := &Prediction{Series: last.series, Place: last.place, Time: given[h], Step: h + 1}
		for k := range targets {
			out.Quantiles = append(out.Quantiles, d.m.quantiles(e, y[h*outputs:(h+1)*outputs], k, h, e.ahead[k][h]))
		}
		if err := visit(out); err != nil {
			return err
		}
	}
	return nil
}
