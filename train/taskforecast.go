package train

import (
	"context"

	"github.com/hippo-ssm/hippo/task"
)

// TaskForecast is what a network foretold of a test example, beside what came.
type TaskForecast struct {
	Example  int       `json:"example"`
	Series   string    `json:"series"`
	Unit     string    `json:"unit"`
	Step     string    `json:"step"`  // of time
	Known    []float32 `json:"known"` // the last of what was given
	Truth    []float32 `json:"truth"`
	Forecast []float32 `json:"forecast"`
}

// Forecasts are kept of so many examples, from the first to the last, with at least so many known steps before each.
const (
	keptForecasts = 3
	leastKnown    = 48
)

// forecasts keeps some of the network's forecasts of the test examples, of the last variable.
func (r *taskRunner) forecasts(ctx context.Context) error {
	about := r.set.Forecast
	if about == nil {
		return nil
	}
	for k := range keptForecasts {
		i := (2*k + 1) * r.set.Test.Len() / (2 * keptForecasts)
		if n := len(r.result.Forecasts); n > 0 && r.result.Forecasts[n-1].Example == i {
			continue // of one example only
		}
		if _, err := r.eval.score(ctx, r.m, task.Part(r.set.Test, i, 1), 0); err != nil {
			return err
		}
		b, width := &r.eval.batch, r.set.Outputs
		v := width - 1
		f := TaskForecast{Example: i, Series: about.Series[v], Unit: about.Unit, Step: about.Step}
		known := b.lengths[0] - b.asked
		for t := max(0, known-max(2*b.asked, leastKnown)); t < known; t++ {
			f.Known = append(f.Known, b.in.Values[t*r.set.Channels+v])
		}
		for t := range b.asked {
			f.Truth = append(f.Truth, b.numbers[t*width+v])
			f.Forecast = append(f.Forecast, r.eval.tally.out[t*width+v])
		}
		r.result.Forecasts = append(r.result.Forecasts, f)
	}
	return nil
}
