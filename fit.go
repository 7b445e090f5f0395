package hippo

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/hippo-ssm/hippo/fit"
)

// FitConfig holds all settings of a run on your own data: a table, a signal or recordings. FitResult is the outcome of
// the run. FitEvents are callbacks during the run.
type (
	FitConfig = fit.Config
	FitResult = fit.Result
	FitEvents = fit.Events
)

// DefaultFit returns settings for the data at path and a target. Fit infers the task from both. The target may be "" if
// the data determines it. An example is a folder that holds one folder of recordings for each class.
func DefaultFit(path, target string) FitConfig {
	c := fit.DefaultConfig()
	c.Data = []string{path}
	if target != "" {
		c.Target = []string{target}
	}
	return c
}

// DefaultForecast returns settings for forecasts of the target in the next horizon rows.
func DefaultForecast(path, target string, horizon int) FitConfig {
	c := DefaultFit(path, target)
	c.Task, c.Horizon = fit.Forecast, horizon
	return c
}

// Fit trains a network on your own data, measures it, and saves it with a report in the folder that the result's
// configuration names. LoadPredictor opens that folder.
func Fit(ctx context.Context, c FitConfig, ev FitEvents) (*FitResult, error) {
	return fit.Run(ctx, c, nil, ev)
}

// Predictor is a network of Fit. Any number of goroutines may use it.
type Predictor struct{ m *fit.Model }

// Prediction is the output of a network for one row, one sequence or one future row.
type Prediction = fit.Prediction

// PredictOptions are options for reading data and for the contents of predictions.
type PredictOptions = fit.PredictOptions

// DefaultPredict returns options that detect the format of the data.
func DefaultPredict() PredictOptions { return PredictOptions{Options: fit.DefaultReadOptions()} }

// LoadPredictor loads the network of a run of Fit.
func LoadPredictor(dir string) (*Predictor, error) {
	m, err := fit.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Predictor{m}, nil
}

// Plan returns the network's description of its data: columns, scales, classes, targets and quantile levels.
func (p *Predictor) Plan() *fit.Plan { return p.m.Plan() }

// Predict yields the network's predictions for the data at path, a file or a folder, row by row as it is read. After an
// error it yields a nil prediction with the error and stops.
func (p *Predictor) Predict(ctx context.Context, path string, o PredictOptions) iter.Seq2[*Prediction, error] {
	return p.predict(ctx, path, nil, o)
}

// Stream is like Predict, but reads the rows from r, as CSV unless o.Format names another format. If o.Live is set, it
// predicts each row before it reads the next, from the network's recurrent state.
func (p *Predictor) Stream(ctx context.Context, r io.Reader, o PredictOptions) iter.Seq2[*Prediction, error] {
	return p.predict(ctx, "-", r, o)
}

// errEnough reports that the caller has stopped the loop.
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
