package task

import (
	"context"
	"fmt"
	"io"
	"time"
)

// ETTh1 and ETTh2 ask for forecasts of the oil temperature and the six loads of two electricity transformers, hour by
// hour ("Informer", arXiv:2012.07436). The first 12 months of 30 days are the training part, the next 4 the validation
// part, the next 4 the test part. Each variable is scaled by the mean and the deviation of its training part, and
// errors are measured on that scale.
//
// An example is a window of the series as in S4 (arXiv:2111.00396): the given hours, then zeros for the hours to
// predict. An additional channel marks the hours to predict. The model's outputs at these last positions are the
// forecast.
var (
	ETTh1 = ett("etth1", "ETTh1.csv", s4OnETTh1)
	ETTh2 = ett("etth2", "ETTh2.csv", s4OnETTh2)
)

// ett returns the task for one file of ETDataset, with the published results of S4.
func ett(name, file string, published ettPublished) *Task {
	from := origin{task: name, data: "ETDataset (ETT-small)", url: "https://github.com/zhouhaoyi/ETDataset"}
	return &Task{
		Name: name, Group: "forecasting",
		About:  "hours of a transformer's temperature and loads; what the next hours bring",
		Source: "Informer, arXiv:2012.07436; as in S4, arXiv:2111.00396",
		Files:  file + " of ETDataset (" + from.url + "), as it is or in the folders ETT-small or ett",
		Options: func() any {
			return &ETTOptions{Horizon: 24, Lookback: 336, Mask: true, Stamps: "none", Relative: true}
		},
		Open: func(ctx context.Context, dir string, options any) (*Set, error) {
			o := options.(*ETTOptions)
			set, err := openETT(ctx, from, dir, file, o)
			if p := published.of(o); err == nil && p > 0 {
				set.Published, set.Where = p, "S4, arXiv:2111.00396, appendix, forecasting"
			}
			return set, err
		},
	}
}

// ETTOptions holds the options of ETTh1 and ETTh2.
type ETTOptions struct {
	Horizon      int    `json:"horizon" min:"1" max:"720" help:"hours to predict: 24, 48, 168, 336, 720 in the papers"`
	Lookback     int    `json:"lookback" min:"1" max:"4320" help:"hours given: 720 in Informer's runs, 384 in S4's"`
	Multivariate bool   `json:"multivariate" help:"all seven variables, not the oil temperature alone"`
	Mask         bool   `json:"mask" help:"add a channel that is 1 at the hours to predict"`
	Stamps       string `json:"stamps" enum:"none,past,all" help:"hour, weekday, day, month as channels: past or all"`
	Relative     bool   `json:"relative" help:"subtract the last given hour (NLinear, arXiv:2205.13504)"`
}

// Lengths of the published parts, in hours.
const (
	ettMonth = 30 * 24
	ettTrain = 12 * ettMonth
	ettValid = ettTrain + 4*ettMonth
	ettTest  = ettValid + 4*ettMonth
)

// openETT reads file under dir and divides it into windows.
func openETT(ctx context.Context, from origin, dir, file string, o *ETTOptions) (*Set, error) {
	if o.Horizon < 1 || o.Horizon > 4*ettMonth || o.Lookback < 1 || o.Lookback+o.Horizon > ettTrain {
		return nil, fmt.Errorf(
			"task %s: horizon %d, lookback %d: want 1 to %d hours to predict and 1 or more known ones,  %d in all",
			from.task, o.Horizon, o.Lookback, 4*ettMonth, ettTrain)
	}
	path, err := from.find(dir, file, "ETT-small/"+file, "ett/"+file, "etth/"+file, "ETDataset/ETT-small/"+file)
	if err != nil {
		return nil, err
	}
	var h *hourly
	err = from.read(path, func(r io.Reader) (err error) { h, err = readHourly(r, ettTest); return err })
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	part := func(lo, hi int) *ettWindows { // returns the windows whose hours to predict are in lo to hi
		return &ettWindows{ETTOptions: *o, series: h, first: max(lo-o.Lookback, 0),
			n: hi - max(lo, o.Lookback) - o.Horizon + 1}
	}
	h.scale(o.Multivariate)
	test := part(ettValid, ettTest)
	return &Set{
		Channels: test.width(), Outputs: h.variables, Numbers: true, Everywhere: true,
		MaxLength: o.Lookback + o.Horizon,
		Train:     part(0, ettTrain), Valid: part(ettTrain, ettValid), Test: test,
		Simple: ettBaselines(test),
		Inputs: test.inputs(), Results: test.results(), Forecast: o.forecast(h.variables),
	}, nil
}

// ettSeries lists the variables in the order of the files' columns.
var ettSeries = []string{"high useful load", "high useless load", "middle useful load", "middle useless load",
	"low useful load", "low useless load", "oil temperature"}

// forecast describes the last variables of a file.
func (o *ETTOptions) forecast(variables int) *Forecast {
	f := &Forecast{Series: ettSeries[len(ettSeries)-variables:],
		Unit: "standard deviations from the mean", Step: "hours"}
	if o.Relative {
		f.Unit = "standard deviations from the last known hour"
	}
	return f
}

// hourly is a series of variables, with one row per hour.
type hourly struct {
	start     time.Time
	raw       [][7]float64
	variables int       // 1 or 7
	values    []float32 // (hours, variables), scaled
	channels  []Channel // descriptions of the variables
}

// scale sets values to the oil temperature or to all seven variables, standardized by the mean and the deviation of the
// training part.
func (h *hourly) scale(all bool) {
	lo := len(h.raw[0]) - 1
	if all {
		lo = 0
	}
	h.variables = len(h.raw[0]) - lo
	h.values = make([]float32, len(h.raw)*h.variables)
	for v := range h.variables {
		column := make([]float64, ettTrain)
		for i := range column {
			column[i] = h.raw[i][lo+v]
		}
		mean, deviation := moments(column)
		h.channels = append(h.channels, rangeOf(ettColumns[1+lo+v], "", column, mean, deviation))
		for i, row := range h.raw {
			h.values[i*h.variables+v] = float32((row[lo+v] - mean) / deviation)
		}
	}
}

// stamp appends the hour, the day of the week from Monday on, the day of the month and the month of row i, each scaled
// to -½ to ½ as in Informer.
func (h *hourly) stamp(to []float32, i int) []float32 {
	t := h.start.Add(time.Duration(i) * time.Hour)
	weekday := (int(t.Weekday()) + 6) % 7
	return append(to, float32(t.Hour())/23-0.5, float32(weekday)/6-0.5, float32(t.Day()-1)/30-0.5,
		float32(t.Month()-1)/11-0.5)
}
