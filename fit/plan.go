package fit

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
	"github.com/hippo-ssm/hippo/task"
)

// planVersion is the version of the format of a Plan.
const planVersion = 1

// Plan maps data to sequences for a network, and its outputs back to the data. It is saved with the network
// (model.Signal.About), so that prediction processes new data like training.
type Plan struct {
	Version int      `json:"version"`
	Task    string   `json:"task"`
	Columns []Column `json:"columns"` // inputs and targets

	Time   *table.Column `json:"time,omitempty"`
	Series string        `json:"series,omitempty"` // the column with the name of a row's sequence
	Zone   string        `json:"zone,omitempty"`
	Comma  bool          `json:"comma,omitempty"` // decimal comma, for runs whose columns do not record it
	Wide   bool          `json:"wide,omitempty"`
	// Spectrum specifies how recordings are read; nil for samples.
	Spectrum *table.Spectrum `json:"spectrum,omitempty"`

	// Step is the median time in seconds from one row to the next, 0 if unknown.
	Step      float64  `json:"step,omitempty"`
	Irregular bool     `json:"irregular,omitempty"` // rows are not evenly spaced
	Dt        string   `json:"dt,omitempty"`        // one of the Dt constants; "" is DtInput
	Calendar  []string `json:"calendar,omitempty"`  // calendar cycles that are inputs

	Length   int       `json:"length,omitempty"` // rows of a training window
	Pieces   bool      `json:"pieces,omitempty"` // whole sequences are learned in pieces of Length rows
	Horizon  int       `json:"horizon,omitempty"`
	Lookback int       `json:"lookback,omitempty"`
	Season   int       `json:"season,omitempty"` // rows
	Local    bool      `json:"local,omitempty"`  // each forecast is scaled by the rows that it sees
	Levels   []float64 `json:"levels,omitempty"`

	// Linear holds the weights of the linear forecast to which the network's output is added: see linear.
	Linear *linear `json:"linear,omitempty"`

	// Widen is the width to add on the outer side of the intervals, on the network's scale: for each target, pair of
	// levels from the outermost, and step of the forecast or one for all steps.
	Widen [][][]float64 `json:"widen,omitempty"`
	// Recent is the number of recent rows that calibrate the intervals of the next forecast; 0 for none.
	Recent int `json:"recent,omitempty"`
	// Final reports that the network was trained on all rows, so its recent errors are smaller than future ones.
	Final bool `json:"final,omitempty"`
	// Use is the name of the contender that predicts, "" for the network. Contenders are the network and the simple
	// models with which it was compared.
	Use        string       `json:"use,omitempty"`
	Contenders []*Contender `json:"contenders,omitempty"`
	// Alarm is the score above which a row is unusual.
	Alarm float64 `json:"alarm,omitempty"`
	// Doubt is how much lower than the network's the error of a rival must be on the validation set. For classes it is
	// the amount that one example may add to the cross-entropy, 1 nat divided by the number of examples: if there are
	// few examples and all are right, the most confident model is not necessarily the best.
	Doubt float64 `json:"doubt,omitempty"`
	// Weights are the weights of the classes. The class with the largest product of probability and weight is
	// predicted. If Weighted is set, the network was trained with them.
	Weights  []float64 `json:"class_weights,omitempty"`
	Weighted bool      `json:"weighted_training,omitempty"`
}

// Column is a column of the data as the network sees it.
type Column struct {
	table.Column
	In     bool `json:"in,omitempty"`
	Target bool `json:"target,omitempty"`
	Known  bool `json:"known,omitempty"` // known for future rows when a forecast is made

	// For numbers: x is stored as x - Base, in 32 bits. Mean and the following fields are for this number, over the
	// training part.
	Base      float64  `json:"base,omitempty"`
	Mean      float64  `json:"mean,omitempty"`
	Deviation float64  `json:"deviation,omitempty"`
	Log       bool     `json:"log,omitempty"`    // x is stored as log x
	Spread    float64  `json:"spread,omitempty"` // deviation of x if its logarithm is stored
	Change    float64  `json:"change,omitempty"` // deviation of the difference from the previous row
	Low       float64  `json:"low,omitempty"`
	High      float64  `json:"high,omitempty"`
	Gaps      bool     `json:"gaps,omitempty"`    // whether a value is missing is also an input
	Classes   []string `json:"classes,omitempty"` // classes of a category
}

// Limits of the number of classes of a category. Each class is an input or an output.
const (
	mostInputClasses  = 64
	mostTargetClasses = 1000
)

// width returns the number of elements of a stored row: the columns, then the time in two parts.
func (p *Plan) width() int {
	if p.Time != nil {
		return len(p.Columns) + 2
	}
	return len(p.Columns)
}

// targets returns the indices of the columns to predict.
func (p *Plan) targets() (at []int) {
	for i := range p.Columns {
		if p.Columns[i].Target {
			at = append(at, i)
		}
	}
	return at
}

// classes returns the names of the target's classes, and reports whether a class is predicted.
func (p *Plan) classes() (names []string, ok bool) {
	if at := p.targets(); len(at) == 1 && p.Columns[at[0]].Kind == table.Category {
		return p.Columns[at[0]].Classes, true
	}
	return nil, false
}

// predictsClass reports whether a class is predicted.
func (p *Plan) predictsClass() bool {
	_, ok := p.classes()
	return ok
}

// whole reports whether the network has one output for a sequence.
func (p *Plan) whole() bool { return p.Task == Classify || p.Task == Regress }

// predictsNext reports whether the network predicts the next row's targets from its own.
func (p *Plan) predictsNext() bool { return p.Task == Next || p.Task == Anomaly }

// raw appends a stored row to dst: values in the order of the plan's columns, and the time. Texts that are unknown in
// training are missing.
func (p *Plan) raw(dst []float32, v *table.Values, time float64, class func(column int,
	text string) float32) []float32 {
	for i := range p.Columns {
		c := &p.Columns[i]
		if c.Kind == table.Category {
			dst = append(dst, class(i, v.Texts[i]))
		} else {
			dst = append(dst, float32(c.stored(v.Numbers[i])))
		}
	}
	if p.Time != nil {
		dst = appendTime(dst, time)
	}
	return dst
}

// appendTime appends a time as two numbers whose sum is exact to a hundred-thousandth of a second.
func appendTime(dst []float32, seconds float64) []float32 {
	whole := float32(seconds)
	return append(dst, whole, float32(seconds-float64(whole)))
}

// time returns the time of a stored row, NaN if it is unknown.
func (p *Plan) time(row []float32) float64 {
	if p.Time == nil {
		return math.NaN()
	}
	n := len(p.Columns)
	return float64(row[n]) + float64(row[n+1])
}

// inputs describes the inputs of the network, in the order of encode.
func (p *Plan) inputs() []task.Channel {
	var all []task.Channel
	for i := range p.Columns {
		c := &p.Columns[i]
		if !c.In {
			continue
		}
		if c.Kind == table.Category {
			for _, class := range c.Classes {
				all = append(all, task.Channel{Name: plain(c.Name + "=" + class), High: 1, Deviation: 1})
			}
			continue
		}
		all = append(all, c.channel(c.Name))
		if c.Gaps {
			all = append(all, task.Channel{Name: plain(c.Name + " is missing"), High: 1, Deviation: 1})
		}
	}
	since := task.Channel{Name: "logarithm of the time since the row before, in steps", Deviation: 1}
	if p.timeGoesIn() {
		all = append(all, since)
	}
	for _, name := range p.Calendar {
		all = append(all, task.Channel{Name: "sine of the " + name, Low: -1, High: 1, Deviation: 1},
			task.Channel{Name: "cosine of the " + name, Low: -1, High: 1, Deviation: 1})
	}
	if p.Task == Forecast {
		all = append(all, task.Channel{Name: "asked", High: 1, Deviation: 1})
	}
	if p.timeSteps() { // after all others: see model.NetworkConfig
		since.Name += ", of the recurrences"
		all = append(all, since)
	}
	return all
}

// channel describes the numbers of a column.
func (c *Column) channel(name string) task.Channel {
	if c.Log {
		return task.Channel{Name: plain("logarithm of " + name), Low: c.Low, High: c.High, Mean: c.Mean,
			Deviation: c.Deviation}
	}
	return task.Channel{Name: plain(name), Unit: c.Unit, Low: c.Low + c.Base, High: c.High + c.Base,
		Mean: c.Mean + c.Base, Deviation: c.Deviation}
}

// plain returns a name without control characters.
func plain(name string) string {
	return strings.Map(func(r rune) rune { return max(r, ' ') }, name)
}

// results describes the outputs of the network if they are numbers. It omits scales that vary by row.
func (p *Plan) results() []task.Channel {
	var all []task.Channel
	for _, i := range p.targets() {
		c := &p.Columns[i]
		out := c.channel(c.Name)
		switch {
		case p.predictsNext():
			out = task.Channel{Name: plain("change of " + c.Name), Unit: c.Unit, Deviation: c.Change}
		case p.Task == Forecast:
			out = task.Channel{Name: plain(c.Name + " less the last known one"), Unit: c.Unit, Deviation: c.Deviation}
		}
		name := out.Name
		for _, level := range p.Levels {
			out.Name = fmt.Sprintf("%s, quantile %g", name, level)
			all = append(all, out)
		}
	}
	return all
}

// about returns the plan in the form in which a network stores it.
func (p *Plan) about() json.RawMessage {
	text, err := json.Marshal(p)
	if err != nil { // numbers are finite
		panic(err)
	}
	return text
}

// PlanOf returns the plan of a network that this package has trained.
func PlanOf(net *model.Network) (*Plan, error) {
	s := net.Config.Signal
	if s == nil || len(s.About) == 0 {
		return nil, fmt.Errorf(
			"found a network that does not know its columns, want the folder of hippo fit or hippo forecast")
	}
	p := &Plan{}
	if err := json.Unmarshal(s.About, p); err != nil {
		return nil, fmt.Errorf("signal.about: %w", err)
	}
	if err := p.check(net); err != nil {
		return nil, fmt.Errorf("signal.about: %w", err)
	}
	return p, nil
}

// mostWindow is the maximum length of a window, so that a hostile plan cannot need much memory.
const mostWindow = 1 << 24

// check returns an error if a plan that was read does not fit its network.
func (p *Plan) check(net *model.Network) error {
	tasks := []string{Classify, Regress, Steps, Next, Forecast, Fill, Anomaly}
	names, classes := p.classes()
	outputs := len(p.targets()) * len(p.Levels)
	if classes {
		outputs = len(names)
	}
	for _, n := range []int{p.Length, p.Horizon, p.Lookback, p.Season} {
		if n < 0 || n > mostWindow {
			return fmt.Errorf("found a window of %d rows, want 0 to %d", n, mostWindow)
		}
	}
	for i := range p.Columns {
		c := &p.Columns[i]
		if !slices.Contains([]table.Kind{table.Number, table.Category}, c.Kind) {
			return fmt.Errorf("column %.40q: found the kind %.40q, want %s or %s", c.Name, c.Kind, table.Number,
				table.Category)
		}
		if c.Log && p.Task != Forecast {
			return fmt.Errorf("column %.40q: found logarithms, want them for forecasts only", c.Name)
		}
		if c.Kind == table.Number && !(c.Deviation > 0 && c.Change > 0) {
			return fmt.Errorf("column %.40q: found the deviation %g and that of changes %g, want more than 0", c.Name,
				c.Deviation, c.Change)
		}
	}
	switch {
	case p.Version != planVersion:
		return fmt.Errorf("found version %d, want %d", p.Version, planVersion)
	case !slices.Contains(tasks, p.Task):
		return fmt.Errorf("found the task %.40q, want one of %v", p.Task, tasks)
	case outputs != net.Config.Outputs || len(p.inputs()) != net.Config.Channels:
		return fmt.Errorf("found %d inputs and %d outputs, want %d and %d, those of the network", len(p.inputs()),
			outputs, net.Config.Channels, net.Config.Outputs)
	case !slices.Contains([]string{"", DtInput, DtSteps, DtBoth, DtNone}, p.Dt) ||
		p.timeSteps() != net.Config.Steps || p.Time == nil && net.Config.Steps:
		return fmt.Errorf("found the time between rows go in as %.40q, and into the recurrences of the network: %v",
			p.Dt, net.Config.Steps)
	case p.Task == Forecast && (p.Horizon < 1 || p.Lookback < 1):
		return fmt.Errorf("found a forecast of %d rows from %d, want 1 or more", p.Horizon, p.Lookback)
	case net.Config.Everywhere == p.whole():
		return fmt.Errorf("found a network with an output at each position: %v, want %v", net.Config.Everywhere,
			!p.whole())
	case !classes && (len(p.Levels) == 0 || !slices.IsSorted(p.Levels) || p.Levels[0] <= 0 ||
		p.Levels[len(p.Levels)-1] >= 1):
		return fmt.Errorf("found the levels %v, want increasing ones between 0 and 1", p.Levels)
	case p.Weighted && p.Weights == nil || p.Weights != nil && (len(p.Weights) != len(names) ||
		slices.ContainsFunc(p.Weights, func(w float64) bool { return !(w > 0 && w <= math.MaxFloat64) })):
		return fmt.Errorf("found the class weights %v, want %d, more than 0", p.Weights, len(names))
	}
	if p.Spectrum != nil {
		if err := p.Spectrum.Check(); err != nil {
			return fmt.Errorf("spectrum: %w", err)
		}
	}
	if err := p.Linear.check(p); err != nil {
		return err
	}
	if err := p.checkWiden(); err != nil {
		return err
	}
	for i, c := range p.Contenders {
		if c == nil || (c.Name == useNetwork) != (i == 0) {
			return fmt.Errorf("contenders: found another order, want the network first")
		}
		if err := c.load(p); err != nil {
			return fmt.Errorf("contenders: %w", err)
		}
	}
	return nil
}

// checkWiden returns an error if the results of calibration are invalid.
func (p *Plan) checkWiden() error {
	if p.Recent < 0 || p.Recent > 0 && (p.Task != Forecast || p.Recent < p.Horizon || p.Recent > recentRows) {
		return fmt.Errorf("found intervals of %d recent forecasts, want 0, or %d to %d", p.Recent, p.Horizon,
			recentRows)
	}
	if len(p.Widen) == 0 {
		return nil
	}
	if len(p.Widen) != len(p.targets()) {
		return fmt.Errorf("found %d intervals, want those of %d targets", len(p.Widen), len(p.targets()))
	}
	for _, pairs := range p.Widen {
		if len(pairs) != len(p.Levels)/2 {
			return fmt.Errorf("found %d intervals, want %d", len(pairs), len(p.Levels)/2)
		}
		for _, steps := range pairs {
			if len(steps) != 1 && len(steps) != p.Horizon {
				return fmt.Errorf("found intervals of %d steps, want one for all, or %d", len(steps), p.Horizon)
			}
		}
	}
	return nil
}

// ClassNames returns the names of the predicted classes, nil if numbers are predicted.
func (p *Plan) ClassNames() []string {
	names, _ := p.classes()
	return names
}

// TargetNames returns the names of the predicted columns.
func (p *Plan) TargetNames() (names []string) {
	for _, i := range p.targets() {
		names = append(names, p.Columns[i].Name)
	}
	return names
}
