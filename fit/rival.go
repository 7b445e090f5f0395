package fit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/task"
)

// rival is a simple model that a network is compared with. It sees the same data as the network and, for forecasts,
// earlier rows too. The model that is best on the validation set predicts: see Plan.Use.
type rival interface {
	// title returns its name in reports.
	title(p *Plan) string
	// fit fits it to the training windows. valid is used to choose its settings. If valid is nil, they stay as chosen
	// before. fit returns false if the data is not suitable.
	fit(ctx context.Context, f *frame, train, valid *windows) (bool, error)
	// check returns an error if data that was read from a file does not fit the plan.
	check(p *Plan) error
	// memory returns the maximum number of rows before the predicted ones that it sees.
	memory(p *Plan) int
	// guess sets dst, which is zero, to its predictions for the last n rows: for each row, the logit of each class, or
	// the number of each target on the network's scale (encoder.target). In the rows that a forecast predicts, it may
	// use columns that are known ahead of time.
	guess(e *encoder, rows []float32, n int, dst []float64)
}

// rivals lists all simple models, in the order of reports.
var rivals = []struct {
	name  string // as accepted by --use
	suits func(p *Plan) bool
	make  func() rival
}{
	{"last", func(p *Plan) bool { return p.forecasts() || p.predictsNext() }, func() rival { return &lastValue{} }},
	{"seasonal", (*Plan).forecasts, func() rival { return &lastSeason{} }},
	{"linear", (*Plan).forecasts, func() rival { return &nlinear{} }},
	{"ets", (*Plan).forecasts, func() rival { return &ets{} }},
	{"theta", (*Plan).forecasts, func() rival { return &theta{} }},
	{"mean", func(p *Plan) bool { return !p.forecasts() && !p.predictsNext() && !p.predictsClass() },
		func() rival { return &mean{} }},
	{"majority", (*Plan).predictsClass, func() rival { return &majority{} }},
	{"logistic", (*Plan).suitsLogistic, func() rival { return &linearRival{} }},
	{"ridge", (*Plan).suitsRidge, func() rival { return &linearRival{} }},
	{"boosted", (*Plan).suitsSimple, func() rival { return &boostedRival{} }},
}

// forecasts reports whether future rows are predicted.
func (p *Plan) forecasts() bool { return p.Task == Forecast }

// Values of Config.Use besides the names of rivals.
const (
	useBest    = "best"    // best on the validation set
	useNetwork = "network" // the network
)

// checkUse returns an error unless name selects a contender.
func (p *Plan) checkUse(name string) error {
	if name == useBest || name == useNetwork || p.contender(name) != nil {
		return nil
	}
	return fmt.Errorf("use: found %.40q, want best or one of %s", name, p.contenderNames())
}

// contenders returns the network and its rivals.
func (p *Plan) contenders() []*Contender {
	if len(p.Contenders) == 0 {
		return []*Contender{{Name: useNetwork, Title: "network"}}
	}
	return p.Contenders
}

// contender returns the contender with the given name, nil if there is none.
func (p *Plan) contender(name string) *Contender {
	for _, c := range p.Contenders {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// uses returns the name of the contender that predicts.
func (p *Plan) uses() string { return cmp.Or(p.Use, useNetwork) }

// Contender is the network or a rival, as the plan stores it.
type Contender struct {
	Name  string `json:"name"`  // as accepted by --use
	Title string `json:"title"` // in reports
	// Error is the error on the validation set: see Plan.measure.
	Error float64 `json:"error"`
	// Off holds quantiles of the errors on the validation set, on the network's scale: for each target, each step of a
	// forecast or one for all steps, and each level.
	Off   [][][]float64 `json:"off,omitempty"`
	Alarm float64       `json:"alarm,omitempty"` // see Plan.Alarm
	// Weights are the weights by which it predicts classes: see Plan.
	Weights []float64       `json:"class_weights,omitempty"`
	Fitted  json.RawMessage `json:"fitted,omitempty"` // the fitted rival
	rival   rival
}

// fitRivals fits the rivals that suit the data.
func (f *frame) fitRivals(ctx context.Context, train, valid *windows) (all []*Contender, err error) {
	p := f.plan
	for _, kind := range rivals {
		if !kind.suits(p) {
			continue
		}
		r := kind.make()
		if ok, err := r.fit(ctx, f, train, valid); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		c := &Contender{Name: kind.name, Title: r.title(p), rival: r}
		if err := c.store(); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// store sets Fitted from the rival.
func (c *Contender) store() (err error) {
	c.Fitted, err = json.Marshal(c.rival)
	return err
}

// load sets the rival from Fitted.
func (c *Contender) load(p *Plan) error {
	if c.Name == useNetwork {
		return nil
	}
	for _, kind := range rivals {
		if kind.name != c.Name || !kind.suits(p) {
			continue
		}
		r := kind.make()
		d := json.NewDecoder(bytes.NewReader(c.Fitted))
		if err := d.Decode(r); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		if err := c.checkOff(p); err != nil {
			return err
		}
		if names, _ := p.classes(); c.Weights != nil && len(c.Weights) != len(names) {
			return fmt.Errorf("%s: found %d class weights, want %d", c.Name, len(c.Weights), len(names))
		}
		c.rival = r
		return r.check(p)
	}
	return fmt.Errorf("found %.40q among what predicts %s", c.Name, p.Task)
}

// checkOff returns an error if the shape of Off is invalid.
func (c *Contender) checkOff(p *Plan) error {
	wrong := len(c.Off) != len(p.targets())
	for _, steps := range c.Off {
		wrong = wrong || len(steps) != 1 && len(steps) != p.Horizon
		for _, levels := range steps {
			wrong = wrong || len(levels) != len(p.Levels)
		}
	}
	if wrong && len(c.Off) > 0 {
		return fmt.Errorf("%s: found intervals of another shape than the targets, steps and levels", c.Name)
	}
	return nil
}

// outputs returns predictions for the last n rows in the form of the network's outputs.
func (c *Contender) outputs(e *encoder, rows []float32, n int) []float32 {
	p := e.p
	width := len(p.targets())
	if names, ok := p.classes(); ok {
		width = len(names)
	}
	guess := make([]float64, n*width)
	c.rival.guess(e, rows, n, guess)
	if p.predictsClass() {
		y := make([]float32, len(guess))
		for i, x := range guess {
			y[i] = float32(x)
		}
		return y
	}
	y := make([]float32, 0, len(guess)*len(p.Levels))
	for i, x := range guess {
		k, step := i%width, i/width
		for j := range p.Levels {
			off := 0.0
			if len(c.Off) > 0 {
				off = c.Off[k][min(step, len(c.Off[k])-1)][j]
			}
			y = append(y, float32(x+off))
		}
	}
	return y
}

// leastErrors is the minimum number of errors for a step of a forecast to have its own quantiles.
const leastErrors = 20

// measureOff computes the quantiles of the errors on the validation set.
func (c *Contender) measureOff(ctx context.Context, m *Model, valid *windows) error {
	p := m.plan
	if p.predictsClass() {
		return nil
	}
	c.Off = nil
	targets := len(p.targets())
	errs := make([][][]float64, targets)
	for k := range errs {
		errs[k] = make([][]float64, max(1, p.Horizon))
	}
	err := m.by(c).outputs(ctx, valid, some(valid.Len(), calibrationWindows),
		func(_ window, ex *task.Example, y []float32) error {
			for i, truth := range ex.Numbers {
				k, step := i%targets, min(i/targets, len(errs[0])-1)
				if truth == truth {
					errs[k][step] = append(errs[k][step], float64(truth-y[i*len(p.Levels)+p.middle()]))
				}
			}
			return nil
		})
	for k := range errs {
		if slices.ContainsFunc(errs[k], func(x []float64) bool { return len(x) < leastErrors }) {
			all := slices.Concat(errs[k]...)
			for _, x := range all { // there are so few that their signs are random
				all = append(all, -x)
			}
			errs[k] = [][]float64{all}
		}
		var steps [][]float64
		for _, x := range errs[k] {
			slices.Sort(x)
			q := make([]float64, len(p.Levels))
			for j, level := range p.Levels {
				if len(x) > 0 {
					q[j] = x[min(len(x)-1, int(level*float64(len(x))))]
				}
				switch m := p.middle(); { // the guess itself is the median
				case j < m:
					q[j] = min(0, q[j])
				case j == m:
					q[j] = 0
				default:
					q[j] = max(0, q[j])
				}
			}
			steps = append(steps, q)
		}
		c.Off = append(c.Off, steps)
	}
	return err
}

// by returns the model with a contender as what predicts.
func (m *Model) by(c *Contender) *Model {
	if m.network != nil {
		m = m.network
	}
	if c == nil || c.Name == useNetwork {
		return &Model{net: m.net, plan: m.plan, enc: m.enc}
	}
	plan := *m.plan
	plan.Widen, plan.Alarm, plan.Final = nil, c.Alarm, false
	plan.Weights, plan.Weighted = c.Weights, false // it was fitted without weights
	return &Model{net: m.net, plan: &plan, enc: m.enc, rival: c, network: m}
}

// Use returns the model with another contender as what predicts: "network", the name of a rival of its run, or "best"
// for the best one on the validation set. "" keeps the run's choice.
func (m *Model) Use(name string) (*Model, error) {
	p := m.plan
	switch {
	case name == "" && p.Use == "" || len(p.Contenders) == 0 && (name == useBest || name == useNetwork):
		return m.by(nil), nil
	case name == "":
		name = p.Use
	case name == useBest:
		name = p.best().Name
	}
	if c := p.contender(name); c != nil {
		return m.by(c), nil
	}
	return nil, p.checkUse(name)
}

// best returns the contender with the smallest error on the validation set, or the network if the difference is within
// the doubt.
func (p *Plan) best() *Contender {
	network := p.Contenders[0]
	best := network
	for _, c := range p.Contenders[1:] {
		if c.Error < best.Error && c.Error < network.Error-p.Doubt {
			best = c
		}
	}
	return best
}

// measure returns the name of the measure by which contenders are compared on the validation set.
func (p *Plan) measure() string {
	switch {
	case p.predictsClass():
		return "cross-entropy"
	case len(p.targets()) > 1:
		return "mean absolute error in deviations"
	}
	return "mean absolute error"
}

// Choice returns a sentence about what predicts, "" for a network without rivals.
func (m *Model) Choice() string {
	p := m.plan
	if len(p.Contenders) < 2 {
		return ""
	}
	now, why := p.contender(useNetwork), "as asked for"
	if m.rival != nil {
		now = m.rival
	}
	if now == p.best() {
		why = "best on the validation set"
	}
	var next *Contender
	for _, c := range p.Contenders {
		if c != now && (next == nil || c.Error < next.Error) {
			next = c
		}
	}
	if now == p.best() && next.Error < now.Error {
		why = "as no other is better on the validation set by more than one example may be"
	}
	return fmt.Sprintf("prediction uses %s, %s: %s %s, next %s %s (--use takes %s)", now.Title, why, p.measure(),
		digits(now.Error), next.Title, digits(next.Error), p.contenderNames())
}

// contenderNames lists the values that --use accepts.
func (p *Plan) contenderNames() string {
	var names []string
	for _, c := range p.contenders() {
		names = append(names, c.Name)
	}
	if names[0] != useNetwork { // before they were compared
		names = append([]string{useNetwork}, names...)
	}
	return strings.Join(names, ", ")
}
