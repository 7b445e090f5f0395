package hippo

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/hippo-ssm/hippo/fit"
)

// FitConfig is everything that a run on people's own data depends on: a table, a signal, recordings. FitResult is how
// it ended, FitEvents are called as it proceeds.
type (
	FitConfig = fit.Config
	FitResult = fit.Result
	FitEvents = fit.Events
)

// DefaultFit are settings that have what is asked found out from the data at path and the target, which may be "" where
// the data says it: a folder of folders of recordings, say.
func DefaultFit(path, target string) FitConfig {
	c := fit.DefaultConfig()
	c.Data = []string{path}
	if target != "" {
		c.Target = []string{target}
	}
	return c
}

// DefaultForecast are settings that learn to forecast the next rows of the target, as many as the horizon.
func DefaultForecast(path, target string, horizon int) FitConfig {
	c := DefaultFit(path, target)
	c.Task, c.Horizon = fit.Forecast, horizon
	return c
}

// Fit trains a network on people's own data, measures it, and leaves it with a report in the folder that the
// configuration of the result names. Open a Predictor there.
func Fit(ctx context.Context, c FitConfig, ev FitEvents) (*FitResult, error) {
	return fit.Run(ctx, c, nil, ev)
}

// Predictor is a network of Fit. Any number of goroutines may use it.
type Predictor struct{ m *fit.Model }

// Prediction is what a network says of a row, a sequence, or a row to come.
type Prediction = fit.Prediction

// PredictOptions say how data is read, and what is told of it.
type PredictOptions = fit.PredictOptions

// DefaultPredict are options that have the form of the data found out.
func DefaultPredict() PredictOptions { return PredictOptions{Options: fit.DefaultReadOptions()} }

// LoadPredictor reads the network of a run of Fit.
func LoadPredictor(dir string) (*Predictor, error) {
	m, err := fit.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Predictor{m}, nil
}

// Plan is what the network knows of its data: columns, scales, classes, targets, the levels of quantiles.
func (p *Predictor) Plan() *fit.Plan { return p.m.Plan() }

// Predict gives what the network says of the data at path, a file or a folder, row by row as it is read. An error ends
// it, and is given with a nil prediction.
func (p *Predictor) Predict(ctx context.Context, path string, o PredictOptions) iter.Seq2[*Prediction, error] {
	return p.predict(ctx, path, nil, o)
}

// Stream is Predict of rows that come from r, in the form of CSV unless o.Format names another. With o.Live each row is
// answered before the next is read, from the recurrent state of the network.
func (p *Predictor) Stream(ctx context.Context, r io.Reader, o PredictOptions) iter.Seq2[*Prediction, error] {
	return p.predict(ctx, "-", r, o)
}

// errEnough says that whoever asked has heard enough.
var errEnough = errors.New("enough predictions")

func (p *Predictor) predict(ctx context.Context, path string, r io.Reader,
	o PredictOptions) iter.Seq2[*Prediction, error] {
	return func(yield func(*Prediction, error) bool) {
		err := p.m.Predict(ctx, []string{path}, r, o, func(one *Prediction) error {
			if !yield(one, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && err != errEnough {
			yield(nil, err)
		}
	}
}
