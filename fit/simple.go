package fit

import (
	"context"
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/fit/classic"
	"github.com/hippo-ssm/hippo/task"
)

// simple is embedded in rivals that use simple features of the network's inputs: of a whole sequence, or of the last
// rows up to the predicted one.
type simple struct {
	Setting float64 `json:"setting"` // chosen on the validation set
}

// Limits of the examples of simple rivals.
const (
	leastSimple    = 10
	mostSimple     = 20_000
	mostFeatures   = 1500
	simpleProducts = 3_000_000 // product of examples, features and outputs
)

// features returns the number of features.
func (p *Plan) features() int {
	if channels := len(p.inputs()); p.whole() {
		return classic.WholeWidth(channels)
	} else {
		return classic.RecentWidth(channels)
	}
}

// outputs returns the number of classes or of numbers.
func (p *Plan) outputs() int {
	if names, ok := p.classes(); ok {
		return len(names)
	}
	return len(p.targets())
}

// suitsSimple reports whether simple features are useful for the task.
func (p *Plan) suitsSimple() bool { return p.whole() || p.Task == Steps }

func (p *Plan) suitsLogistic() bool { return p.suitsSimple() && p.predictsClass() }

func (p *Plan) suitsRidge() bool { return p.suitsSimple() && !p.predictsClass() }

// data returns the examples of the training and the validation set with scaled features. ok is false if there are too
// few.
func (s *simple) data(ctx context.Context, f *frame, train,
	valid *windows) (a, b *classic.Examples, scale classic.Scale, ok bool, err error) {
	p := f.plan
	width := p.features()
	most := min(mostSimple, simpleProducts/width/max(2, p.outputs()))
	if width > mostFeatures || most < max(leastSimple, 2*p.outputs()) {
		return nil, nil, scale, false, nil
	}
	if a, err = f.examples(ctx, train, most, &scale); err != nil || a.Len() < leastSimple {
		return nil, nil, scale, false, err
	}
	if b = a; valid != nil {
		if b, err = f.examples(ctx, valid, most, &scale); err != nil || b.Len() == 0 {
			return nil, nil, scale, false, err
		}
	}
	return a, b, scale, true, nil
}

// examples returns at most most of the examples of windows, evenly spaced, with scaled features. If scale is not set,
// it is set to the scale of these examples.
func (f *frame) examples(ctx context.Context, w *windows, most int,
	scale *classic.Scale) (*classic.Examples, error) {
	p := f.plan
	e := &classic.Examples{Width: p.features()}
	channels, outputs := len(p.inputs()), p.outputs()
	asked := 0
	indices := some(w.Len(), most)
	for _, i := range indices {
		asked += w.Length(i)
	}
	every := 1
	if !p.whole() {
		every = (asked + most - 1) / most
	}
	for n, i := range indices {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var ex task.Example
		w.Example(i, &ex)
		rows := len(ex.Values) / channels
		for r := n % every; r < max(len(ex.Targets), len(ex.Numbers)/len(p.targets())); r += every {
			if p.predictsClass() {
				if ex.Targets[r] == task.Ignore {
					continue
				}
				e.Class = append(e.Class, int(ex.Targets[r]))
			} else if y, ok := known(ex.Numbers[r*outputs : (r+1)*outputs]); ok {
				e.Y = append(e.Y, y...)
			} else {
				continue
			}
			if p.whole() {
				e.X = append(e.X, classic.Whole(ex.Values, channels)...)
			} else {
				e.X = classic.OfRow(e.X, ex.Values[:rows*channels], channels, r)
			}
		}
	}
	if scale.Mean == nil && e.Len() > 0 {
		*scale = classic.ScaleOf(e.X, e.Width)
	}
	scale.Apply(e.X)
	return e, nil
}

// known returns the numbers, and reports whether none is missing.
func known(numbers []float32) (y []float64, ok bool) {
	for _, x := range numbers {
		y = append(y, float64(x))
	}
	for _, x := range y {
		if math.IsNaN(x) {
			return nil, false
		}
	}
	return y, true
}

// memory returns the number of rows before a row that its features need, including the one before the first, whose time
// is needed.
func (*simple) memory(p *Plan) int {
	if p.whole() {
		return 0
	}
	return classic.Recent
}

// each calls predict with the features of each of the last n rows, or once with those of all rows if there is one
// output.
func (*simple) each(e *encoder, rows []float32, n int, dst []float64, predict func(x, y []float64)) {
	p, width := e.p, e.p.width()
	var in []float32
	before := math.NaN()
	for at := 0; at < len(rows); at += width {
		in = e.row(in, rows[at:at+width], before, -1, nil)
		before = p.time(rows[at : at+width])
	}
	count := len(rows) / width
	channels, outputs := len(in)/count, len(dst)/n
	if p.whole() {
		predict(classic.Whole(in, channels), dst)
		return
	}
	var x []float64
	for r := range n {
		x = classic.OfRow(x[:0], in, channels, count-n+r)
		predict(x, dst[r*outputs:(r+1)*outputs])
	}
}

// linearRival is logistic regression for classes, and ridge regression for numbers.
type linearRival struct {
	simple
	Model *classic.Linear `json:"model"`
}

func (l *linearRival) title(p *Plan) string {
	if p.predictsClass() {
		return fmt.Sprintf("logistic regression on %d simple features", p.features())
	}
	return fmt.Sprintf("ridge regression on %d simple features", p.features())
}

func (l *linearRival) fit(ctx context.Context, f *frame, train, valid *windows) (bool, error) {
	a, b, scale, ok, err := l.data(ctx, f, train, valid)
	if !ok {
		return false, err
	}
	if valid != nil {
		l.Setting = 0
	}
	if f.plan.predictsClass() {
		l.Model, l.Setting = classic.FitLogistic(a, b, scale, f.plan.outputs(), l.Setting)
	} else {
		l.Model, l.Setting = classic.FitRidge(a, b, scale, f.plan.outputs(), l.Setting)
	}
	return l.Model != nil, nil
}

func (l *linearRival) check(p *Plan) error {
	if l.Model == nil {
		return fmt.Errorf("found no weights, want some")
	}
	return l.Model.Check(p.features(), p.outputs())
}

func (l *linearRival) guess(e *encoder, rows []float32, n int, dst []float64) {
	l.each(e, rows, n, dst, l.Model.Predict)
}

// boostedRival uses boosted trees.
type boostedRival struct {
	simple
	Model *classic.Boosted `json:"model"`
}

func (b *boostedRival) title(p *Plan) string {
	return fmt.Sprintf("boosted-trees model on %d simple features", p.features())
}

func (b *boostedRival) fit(ctx context.Context, f *frame, train, valid *windows) (bool, error) {
	t, v, scale, ok, err := b.data(ctx, f, train, valid)
	if !ok {
		return false, err
	}
	if valid != nil {
		b.Setting = 0
	}
	var rounds int
	b.Model, rounds = classic.FitBoosted(t, v, scale, f.plan.outputs(), int(b.Setting))
	b.Setting = float64(rounds)
	return rounds > 0, nil // otherwise it is best to have no trees
}

func (b *boostedRival) check(p *Plan) error {
	if b.Model == nil {
		return fmt.Errorf("found no trees, want some")
	}
	return b.Model.Check(p.features(), p.outputs())
}

func (b *boostedRival) guess(e *encoder, rows []float32, n int, dst []float64) {
	b.each(e, rows, n, dst, b.Model.Predict)
}
