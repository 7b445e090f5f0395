package experiment

import "context"

// Forecast is a network's forecast of a test example, beside the truth.
type Forecast struct {
	Example  int       `json:"example"`
	Series   string    `json:"series"`
	Unit     string    `json:"unit"`
	Step     string    `json:"step"`  // unit of time
	Known    []float32 `json:"known"` // the last values given to the network
	Truth    []float32 `json:"truth"`
	Forecast []float32 `json:"forecast"`
}

// The number of forecasts saved, evenly spaced over the examples, and the least number of known steps shown before
// each.
const (
	savedForecasts = 3
	leastKnown     = 48
)

// forecasts saves some of the network's forecasts of the last variable for test examples.
func (r *run) forecasts(ctx context.Context) error {
	about := r.work.Set.Forecast
	if about == nil {
		return nil
	}
	for k := range savedForecasts {
		i := (2*k + 1) * r.work.Set.Test.Len() / (2 * savedForecasts)
		if n := len(r.result.Forecasts); n > 0 && r.result.Forecasts[n-1].Example == i {
			continue // few examples: this one is already saved
		}
		known, truth, forecast, err := r.work.Forecast(ctx, r.loop.Tape(), r.work.Set.Test, i)
		if err != nil {
			return err
		}
		width, channels := r.work.Set.Outputs, r.work.Set.Channels
		v, steps := width-1, len(known)/channels
		f := Forecast{Example: i, Series: about.Series[v], Unit: about.Unit, Step: about.Step}
		for t := max(0, steps-max(2*len(truth)/width, leastKnown)); t < steps; t++ {
			f.Known = append(f.Known, known[t*channels+v])
		}
		for at := v; at < len(truth); at += width {
			f.Truth, f.Forecast = append(f.Truth, truth[at]), append(f.Forecast, forecast[at])
		}
		r.result.Forecasts = append(r.result.Forecasts, f)
	}
	return nil
}
