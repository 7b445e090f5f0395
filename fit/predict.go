package fit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
)

// PredictOptions holds the options of predictions.
type PredictOptions struct {
	table.Options
	// Live predicts each row when it arrives, and reads on only after visit has returned. Otherwise rows are computed
	// in batches. It is for causal networks that predict each row, and for forecasts, which are then repeated after
	// each row that has a value of a target.
	Live bool
	// Rows and Series limit the data. 0 means any number of rows, and the default limit of series.
	Rows, Series int
	// Note receives messages for the user: missing columns, other sampling rates, numbers far from those of training.
	// It may be nil.
	Note func(text string)
	// Count is called for each row read. It may be nil.
	Count func()
}

// Prediction is a network's prediction for a row, a sequence, or a future row.
type Prediction struct {
	Series string
	Place  table.Place // of the row, or of the first row of a sequence
	Time   float64     // seconds since 1970; NaN if unknown
	Step   int         // of a forecast, from 1; else 0

	// Quantiles holds the quantiles of each target, at the levels of the plan, in the units of the data.
	Quantiles [][]float64
	// Given holds the numbers of the targets in the data, NaN if missing.
	Given []float64
	// Probabilities holds the probabilities of the classes, and Weights the factors that Class uses; nil for none.
	Probabilities []float64
	Weights       []float64
	Score         float64 // score of an anomaly
	Unusual       bool    // Score is above that of almost all rows in training
}

// Class returns the class with the largest product of probability and weight, and its probability.
func (p *Prediction) Class() (class int, probability float64) {
	class = predicted(p.Probabilities, p.Weights)
	return class, p.Probabilities[class]
}

// Predict calls visit with the predictions for data: files, a folder, or "-" for stdin. visit may keep the prediction.
// Predict stops at the first error in a row.
func (m *Model) Predict(ctx context.Context, paths []string, stdin io.Reader, opt PredictOptions,
	visit func(p *Prediction) error) error {
	d, err := m.open(paths, stdin, opt)
	if err != nil {
		return err
	}
	defer d.r.Close()
	defer func() {
		for _, note := range d.r.Notes() {
			d.once(note)
		}
	}()
	switch {
	case m.plan.Task == Forecast && opt.Live:
		return d.follow(ctx, visit)
	case !m.plan.whole() && m.plan.Task != Forecast && m.plan.Task != Fill:
		return d.rows(ctx, visit)
	case opt.Live:
		return fmt.Errorf("stream: found the task %s, which sees a whole series first; want steps, next, "+
			"anomaly or forecast", m.plan.Task)
	}
	return d.sequences(ctx, visit)
}

// input is the state of reading new data. A model may read several at a time.
type input struct {
	m        *Model
	net      *model.Network // network of the model, or one adapted to another rate
	enc      *encoder
	p        *Plan
	r        *table.Reader
	opt      PredictOptions
	classes  []map[string]int
	series   int // index among the reader's columns, -1 for none
	time     int
	clocks   map[seriesKey]float64 // last time of each series
	reported map[string]bool
	note     func(text string)
}

// open opens data and finds the plan's columns in it. Targets may be missing if they are not inputs.
func (m *Model) open(paths []string, stdin io.Reader, opt PredictOptions) (*input, error) {
	p := m.plan
	enc, err := newEncoder(p)
	if err != nil {
		return nil, err
	}
	d := &input{m: m, net: m.net, enc: enc, p: p, opt: opt, reported: map[string]bool{}, series: -1, time: -1,
		note: opt.Note, clocks: map[seriesKey]float64{}}
	if d.note == nil {
		d.note = func(string) {}
	}
	var want []table.Column
	for i := range p.Columns {
		c := p.Columns[i].Column
		c.Optional = !p.Columns[i].In
		p.olderDecimal(&c)
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
		c.Optional = len(p.Calendar) == 0 && !p.timeGoesIn() && !p.timeSteps()
		p.olderDecimal(&c)
		want = append(want, c)
	}
	if p.Series != "" {
		d.series = len(want)
		want = append(want, table.Column{Name: p.Series, Kind: table.Category, Optional: true})
	}
	o := opt.Options
	o.Rate = p.soundRate()
	o.Zone, o.Wide, o.Categories = p.Zone, p.Wide, nil
	if p.Spectrum != nil {
		spectrum := *p.Spectrum
		o.Spectrum = &spectrum
	}
	d.r, err = table.Open(paths, stdin, o, want)
	return d, err
}

// olderDecimal sets the decimal sign of a column if an earlier version trained the network.
func (p *Plan) olderDecimal(c *table.Column) {
	if c.Decimal == "" {
		c.Decimal = map[bool]string{true: "comma", false: "point"}[p.Comma]
	}
}

// soundRate returns the sampling rate of the training recordings, 0 if unknown.
func (p *Plan) soundRate() int {
	switch {
	case p.Spectrum != nil:
		return int(math.Round(2 * p.Spectrum.Top))
	case p.Step > 0:
		return int(math.Round(1 / p.Step))
	}
	return 0
}

// once reports a text unless it was reported before.
func (d *input) once(text string) { d.onceOf(text, text) }

// onceOf reports a text unless one was reported about the same matter before.
func (d *input) onceOf(matter, text string) {
	if !d.reported[matter] {
		d.reported[matter] = true
		d.note(text)
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
	n      int // number of earlier rows of its series
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
		it.time = d.clock(v, it.series)
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

// clock returns the time of a row. An hour occurs twice when clocks are put back. The order of rows shows which one it
// is.
func (d *input) clock(v *table.Values, series string) float64 {
	now := v.Numbers[d.time]
	if !d.r.Unclear(d.time) {
		return now
	}
	key := seriesKey{v.Sequence, series}
	before, known := d.clocks[key]
	if again, ok := d.r.Again(d.time, now); ok && known && now <= before && before <= again {
		now = again
	}
	d.clocks[key] = now
	return now
}

// checkRange reports the first number of a column that is far from those of training.
func (d *input) checkRange(v *table.Values, c *Column, x float64) {
	low, high := c.number(c.Low), c.number(c.High)
	if c.Log && x <= 0 {
		d.onceOf("log "+c.Name, fmt.Sprintf("%s, column %s: found %.6g, but training had positive numbers "+
			"only and the forecast is of their logarithms: it counts as missing", v.Place, c.Name, x))
	}
	room := (high - low) / 2
	matter := c.Name
	if d.p.Spectrum != nil { // one band for all
		matter = "spectrum"
	}
	if x >= low-room && x <= high+room || d.reported[matter] {
		return
	}
	d.reported[matter] = true
	d.note(fmt.Sprintf("%s, column %s: found %.6g, far from the %.6g to %.6g of training: "+
		"predictions from it mean little", v.Place, c.Name, x, low, high))
}

// class returns the index of a class of a column, NaN for a class that is unknown in training.
func (d *input) class(v *table.Values, i int, text string) float32 {
	n, ok := d.classes[i][text]
	if ok {
		return float32(n)
	}
	if c := &d.p.Columns[i]; text != "" && c.In && !d.reported[c.Name] {
		d.reported[c.Name] = true
		d.note(fmt.Sprintf("%s, column %s: found %.40q, which training did not have: it counts as missing; known: %s",
			v.Place, c.Name, text, brief.List(c.Classes, ", ")))
	}
	return float32(math.NaN())
}

// sameStep is the maximum relative difference between a step and that of training for them to count as equal.
const sameStep = 0.02

// atRate adapts the network to rows that are step seconds apart.
func (d *input) atRate(step float64) error {
	p := d.p
	if !(p.Step > 0 && step > 0) || math.Abs(step-p.Step) <= sameStep*p.Step || d.net != d.m.net {
		return nil
	}
	text := fmt.Sprintf("rows are %.6g seconds apart, %.6g in training: ", step, p.Step)
	switch {
	case p.Task == Forecast:
		d.onceOf("rate", text+"the forecast counts rows, whatever time they cover")
		return nil
	case p.timeGoesIn() || p.timeSteps():
		d.onceOf("rate", text+"the network takes the time between rows into account")
		return nil
	}
	net, err := d.m.net.AtRate(step / p.Step)
	if err == nil {
		d.net = net
		d.onceOf("rate", text+"the steps dt of the continuous systems are scaled by their ratio "+
			"(other layers cannot be)")
	}
	return err
}

// each calls visit with all rows, and for each row a key of its sequence and series. It is an error if there are no
// rows.
func (d *input) each(ctx context.Context, visit func(key string, it item) error) error {
	var v table.Values
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		it, err := d.next(&v)
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			return errors.New("found no rows, want some")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case d.opt.Rows > 0 && n >= d.opt.Rows:
			return &table.RowError{Place: it.place, Text: fmt.Sprintf("found more than %d rows, want at most that",
				d.opt.Rows)}
		}
		if d.opt.Count != nil {
			d.opt.Count()
		}
		if err := visit(fmt.Sprint(v.Sequence, " ", it.series), it); err != nil {
			return err
		}
	}
}
