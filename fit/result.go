package fit

import (
	"context"
	"math"
	"path/filepath"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
)

// ResultFile is the name of the result in the folder of a run.
const ResultFile = "result.json"

// Result is the result of a run.
type Result struct {
	Task    string   `json:"task"`
	Rows    int      `json:"rows"`
	Series  int      `json:"series"`
	Windows [3]int   `json:"windows"` // in training, validation and test
	Divided string   `json:"divided"` // how the data was divided into these parts
	Notes   []string `json:"notes"`
	Params  int      `json:"params"`
	Model   string   `json:"model"` // its layers

	Errors []Errors `json:"errors,omitempty"` // for predicted numbers: of the network, then of the baselines
	// Calibration is the coverage of the intervals of each target. It is empty if the intervals are as learnt.
	Calibration []Calibration   `json:"calibration,omitempty"`
	Classes     *ClassScore     `json:"classes,omitempty"`
	Rivals      []*ClassScore   `json:"class_rivals,omitempty"` // the simple models that Classes competes with
	Forecasts   []ForecastChart `json:"forecasts,omitempty"`
	Choice      string          `json:"choice,omitempty"`      // what predicts, as a sentence
	Final       string          `json:"final,omitempty"`       // the rows of the final fit, as a sentence
	Scales      *TimeScales     `json:"time_scales,omitempty"` // of the network and of the data
	Importance  *Importance     `json:"importance,omitempty"`  // of the input columns

	Steps        int     `json:"steps"`
	Epochs       float64 `json:"epochs"`
	TrainSeconds float64 `json:"train_seconds"`
	Seconds      float64 `json:"seconds"`
	CPUSeconds   float64 `json:"cpu_seconds"` // of the process
	train.Maker
	Date   string        `json:"date"`
	Config Config        `json:"config"`
	Plan   *Plan         `json:"plan"`
	Curve  []train.Point `json:"curve"`
}

// ForecastChart is a forecast of the test part with the truth, in the units of the data.
type ForecastChart struct {
	Series string    `json:"series"`
	Target string    `json:"target"`
	Unit   string    `json:"unit,omitempty"`
	Known  []float64 `json:"known"`
	Truth  []float64 `json:"truth"`
	Low    []float64 `json:"low"`
	Median []float64 `json:"median"`
	High   []float64 `json:"high"`
}

// ReadResult reads the result of the run in a folder. The error is os.ErrNotExist if the run has not finished.
func ReadResult(dir string) (*Result, error) {
	r := &Result{Config: DefaultConfig()}
	if err := disk.ReadJSON(filepath.Join(dir, ResultFile), r); err != nil {
		return nil, err
	}
	r.Config.Settle()
	r.Config.Out = dir // the folder may have been moved
	return r, nil
}

// Pinball returns the network's mean pinball loss for the first target, in deviations of the training part. It returns
// NaN if no numbers are predicted.
func (r *Result) Pinball() float64 {
	if len(r.Errors) == 0 {
		return math.NaN()
	}
	return r.Errors[0].CRPS / 2 / r.Plan.Columns[r.Plan.targets()[0]].deviation()
}

// write writes the result of a run.
func (r *Result) write(dir string) error { return disk.WriteJSON(filepath.Join(dir, ResultFile), r) }

// Number of forecasts drawn in the report, and of the rows shown before them.
const (
	drawnForecasts = 4
	drawnKnown     = 96
)

// examples returns some forecasts of the test part, for its first target.
func (m *Model) examples(ctx context.Context, f *frame, w *windows,
	past map[int]*recent) (all []ForecastChart, err error) {
	p := m.plan
	i := p.targets()[0]
	c := &p.Columns[i]
	err = m.outputs(ctx, w, some(w.Len(), drawnForecasts), func(at window, ex *task.Example, y []float32) error {
		chart := ForecastChart{Series: f.seqs[at.seq].name, Target: c.Name, Unit: c.Unit}
		for _, x := range f.seen(at)[0][max(0, p.Lookback-drawnKnown):] {
			chart.Known = append(chart.Known, c.number(x))
		}
		width := m.net.Config.Outputs
		wide := past[at.seq].widths(f.origin(at))
		f.truths(m.enc, at, ex, func(r, k int, truth, now float64) {
			if k > 0 {
				return
			}
			q := m.calibrated(m.enc, y[r*width:(r+1)*width], k, r, now, wide)
			chart.Truth, chart.Low = append(chart.Truth, truth), append(chart.Low, q[0])
			chart.Median, chart.High = append(chart.Median, q[p.middle()]), append(chart.High, q[len(q)-1])
		})
		all = append(all, chart)
		return nil
	})
	return all, err
}
