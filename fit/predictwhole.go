package fit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
)

// sequences makes predictions for series or sequences that are read completely first.
func (d *input) sequences(ctx context.Context, visit func(p *Prediction) error) error {
	all, order := map[string][]item{}, []string{}
	parts := map[string]*pieces{}
	emit := func(key string) error {
		items, sums := all[key], parts[key]
		delete(all, key)
		delete(parts, key)
		if sums != nil {
			if len(items) > 0 {
				if err := d.piece(sums, items); err != nil {
					return err
				}
			}
			return visit(sums.mean())
		}
		return d.sequence(items, &recent{p: d.p}, visit)
	}
	before := ""
	err := d.each(ctx, func(key string, it item) error {
		if all[key] == nil {
			if d.series < 0 && before != "" { // the sequences of files are successive
				if err := emit(before); err != nil {
					return err
				}
				order = order[:0]
			}
			if err := d.another(len(all), it.place); err != nil {
				return err
			}
			order = append(order, key)
		}
		if last := len(all[key]) - 1; last >= 0 {
			it.n = all[key][last].n + 1
		}
		if d.p.Task == Forecast && len(all[key]) > 2*d.memory() {
			all[key] = slices.Delete(all[key], 0, len(all[key])-d.memory())
		}
		all[key], before = append(all[key], it), key
		if d.p.Pieces && len(all[key]) == d.p.Length {
			if parts[key] == nil {
				parts[key] = &pieces{}
			}
			items := all[key]
			all[key] = items[:0]
			return d.piece(parts[key], items)
		}
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

// another returns an error if n series reach the limit.
func (d *input) another(n int, place table.Place) error {
	most := d.opt.Series
	if most == 0 && (d.opt.Live || d.p.Task == Steps || d.p.predictsNext()) {
		most = mostTracks
	}
	if most == 0 || n < most {
		return nil
	}
	return &table.RowError{Place: place, Column: d.p.Series, Text: fmt.Sprintf(
		"found more than %d series at a time, want at most that", most)}
}

// sequence makes predictions from the rows of one series. past holds its earlier forecasts.
func (d *input) sequence(items []item, past *recent, visit func(p *Prediction) error) error {
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
	if err := d.atRate(step); err != nil {
		return err
	}
	if d.p.Task == Forecast {
		return d.forecast(items, step, past, visit)
	}
	y, err := d.whole(items)
	if err != nil {
		return err
	}
	if err := finite(y, items[0].place); err != nil {
		return err
	}
	if d.p.whole() {
		return visit(d.prediction(&items[0], y, nil))
	}
	width := d.m.net.Config.Outputs
	for i := range items {
		if err := visit(d.prediction(&items[i], y[i*width:(i+1)*width], nil)); err != nil {
			return err
		}
	}
	return nil
}

// whole returns the outputs for the rows of one series.
func (d *input) whole(items []item) ([]float32, error) {
	if d.m.rival != nil {
		n := len(items)
		if d.p.whole() {
			n = 1
		}
		return d.m.rival.outputs(d.enc, rowsOf(nil, items), n), nil
	}
	var in model.Input
	before := math.NaN()
	for _, it := range items {
		in.Values = d.enc.row(in.Values, it.row, before, -1, nil)
		before = it.time
	}
	if err := d.net.Takes(len(items)); err != nil {
		return nil, &table.RowError{Place: items[0].place, Text: err.Error()}
	}
	in.Lengths = []int{len(items)}
	return d.net.Predict(in), nil
}

// rowsOf appends the rows of items.
func rowsOf(rows []float32, items []item) []float32 {
	for _, it := range items {
		rows = append(rows, it.row...)
	}
	return rows
}

// prediction returns the prediction for a row from outputs of the network. now holds the last known numbers of the
// targets.
func (d *input) prediction(it *item, y []float32, now []float64) *Prediction {
	out := &Prediction{Series: it.series, Place: it.place, Time: it.time, Given: it.given}
	if _, ok := d.p.classes(); ok {
		out.Probabilities, out.Weights = d.p.probabilities(y), d.p.Weights
		return out
	}
	for k := range d.p.targets() {
		last := 0.0
		if now != nil {
			last = now[k]
		}
		out.Quantiles = append(out.Quantiles, d.m.quantiles(d.enc, y, k, 0, last))
	}
	return out
}
