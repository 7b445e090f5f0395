package fit

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
)

// monthsLater returns the time a number of months later, on the same day of the month or, if there is none, on the last
// day.
func monthsLater(seconds float64, months int) float64 {
	at := time.Unix(int64(seconds), 0).UTC()
	first := time.Date(at.Year(), at.Month()+time.Month(months), 1, at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return float64(first.AddDate(0, 0, min(at.Day(), last)-1).Unix())
}

// atATime is the number of rows that are computed together unless each is predicted when it arrives.
const atATime = 256

// track is the state of a series that is processed row by row.
type track struct {
	s       *model.Stream // nil before the first row
	before  float64
	now     []float64 // last number of each target
	next    [][]float64
	waiting []item
	past    []float32 // last rows, as many as a rival sees
}

// rows predicts each row from the earlier rows of its series, using the recurrent state of the network.
func (d *input) rows(ctx context.Context, visit func(p *Prediction) error) error {
	tracks, order := map[string]*track{}, []*track{}
	waiting := 0
	flush := func() error {
		waiting = 0
		for _, t := range order {
			if err := d.advance(t, visit); err != nil {
				return err
			}
		}
		return nil
	}
	err := d.each(ctx, func(key string, it item) error {
		t := tracks[key]
		if t == nil {
			if d.series < 0 { // the sequences of files are successive
				if err := flush(); err != nil {
					return err
				}
				clear(tracks)
				order = order[:0]
			}
			if err := d.another(len(tracks), it.place); err != nil {
				return err
			}
			if err := d.atRate(it.step); err != nil {
				return err
			}
			t = d.newTrack()
			tracks[key] = t
			order = append(order, t)
		}
		t.waiting = append(t.waiting, it)
		if waiting++; d.opt.Live || waiting >= atATime {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// mostTracks is the maximum number of series that are processed at a time.
const mostTracks = 10_000

func (d *input) newTrack() *track {
	t := &track{before: math.NaN()}
	for _, i := range d.p.targets() {
		t.now = append(t.now, d.p.Columns[i].Mean)
	}
	return t
}

// advance passes the waiting rows of a series to the network, and visits the prediction of each.
func (d *input) advance(t *track, visit func(p *Prediction) error) error {
	if len(t.waiting) == 0 {
		return nil
	}
	items := t.waiting
	t.waiting = nil
	if d.time >= 0 && math.IsNaN(t.before) && len(items) > 2 {
		var steps []float64
		for i := 1; i < len(items); i++ {
			steps = append(steps, items[i].time-items[i-1].time)
		}
		if err := d.atRate(median(steps)); err != nil {
			return err
		}
	}
	var in []float32
	for i := range items {
		if items[i].time < t.before {
			return d.errTime(&items[i], t.before)
		}
		in = d.enc.row(in, items[i].row, t.before, -1, nil)
		t.before = items[i].time
	}
	y, err := d.follows(t, items, in)
	if err != nil {
		return &table.RowError{Place: items[0].place, Text: err.Error()}
	}
	if err := finite(y, items[0].place); err != nil {
		return err
	}
	width := d.net.Config.Outputs
	for i := range items {
		for k, at := range d.p.targets() {
			if x := float64(items[i].row[at]); x == x {
				t.now[k] = x
			}
		}
		out := d.prediction(&items[i], y[i*width:(i+1)*width], t.now)
		if d.p.Task == Anomaly {
			out.Quantiles, t.next = t.next, out.Quantiles // what was expected of this row
			out.Score = math.NaN()
			if out.Quantiles != nil {
				out.Score = d.p.surprise(out.Given, out.Quantiles)
				out.Unusual = out.Score > d.p.Alarm
			}
		}
		if err := visit(out); err != nil {
			return err
		}
	}
	return nil
}

// follows returns the outputs for rows that continue a track. in are the rows' inputs.
func (d *input) follows(t *track, items []item, in []float32) (y []float32, err error) {
	if r := d.m.rival; r != nil {
		rows := rowsOf(t.past, items)
		y = r.outputs(d.enc, rows, len(items))
		t.past = append([]float32(nil), rows[max(0, len(rows)-r.rival.memory(d.p)*d.p.width()):]...)
		return y, nil
	}
	if t.s == nil {
		if t.s, err = d.net.NewStream(); err != nil {
			return nil, err
		}
	}
	return t.s.Values(in...)
}

// finite returns an error if an output of the network is NaN or infinite.
func finite(y []float32, place table.Place) error {
	for _, x := range y {
		if x-x != 0 {
			return &table.RowError{Place: place, Text: fmt.Sprintf(
				"the network returns %g, want numbers: its weights are broken, or the inputs are too large", x)}
		}
	}
	return nil
}
