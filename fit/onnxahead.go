package fit

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/onnx"
)

// forecast adds the forecast from the last rows of a series. In the form of steps the state is these rows.
func (x *onnxModel) forecast() error {
	g, columns := x.g, len(x.columns)
	window := x.in
	nan := func(n, m int) onnx.Value { return g.Doubles(slices.Repeat([]float64{math.NaN()}, n*m), n, m) }
	if x.step {
		window = x.slide(nan(1, 1))
	} else { // rows that are not there are missing
		window = g.Concat(0, nan(x.Lookback, columns), window)
		window = g.Slice(window, 0, g.Ints(-x.Lookback), g.Ints(math.MaxInt32))
	}
	next := nan(x.Horizon, columns)
	if len(x.known) > 0 {
		places := slices.Repeat([]int{len(x.known)}, columns)
		for k, at := range x.known {
			places[at] = k
		}
		next = g.Gather(g.Concat(1, x.ahead, nan(x.Horizon, 1)), 1, places...)
	}
	w := x.measure(x.given(window))
	var parts []onnx.Value
	for i, rows := range []onnx.Value{window, next} {
		from, to := i*x.Lookback, x.Lookback+i*x.Horizon
		part := func(v onnx.Value) onnx.Value {
			if v == "" {
				return v
			}
			return g.Slice(v, 0, g.Ints(from), g.Ints(to))
		}
		parts = append(parts, x.encode(rows, part(x.seconds), part(x.times), w, i == 1))
	}
	y, err := x.net.All(g, g.Concat(0, parts...))
	if err != nil {
		return err
	}
	q := x.ordered(g.Slice(y, 0, g.Ints(x.Lookback), g.Ints(x.Lookback+x.Horizon)))
	g.Output("quantiles", x.inUnits(q, w.scale, w.last, w.ahead), onnx.Double,
		"of each row of the horizon, of the targets, at the levels",
		onnx.Dims(x.Horizon, len(x.targets()), len(x.Levels))...)
	return nil
}

// slide adds a state: the last rows, and of each number whether it is there. It returns the rows with the new one.
func (x *onnxModel) slide(nan onnx.Value) onnx.Value {
	g, columns := x.g, len(x.columns)
	shape := []int{x.Lookback, 2 * columns}
	x.card.State = []onnx.Part{{Name: "rows", Shape: shape}}
	state := g.Input(stateName, onnx.Double, "the rows before, zeros at first", onnx.Dims(shape...)...)
	half := func(i int) onnx.Value {
		return g.Op("Slice", state, g.Ints(1, i*columns), g.Ints(x.Lookback, (i+1)*columns), g.Ints(0, 1))
	}
	there := g.Op("Greater", half(1), g.Number(onnx.Double, 0))
	window := g.Concat(0, g.Op("Where", there, half(0), nan), x.in)
	missing := g.Op("IsNaN", window)
	g.Output("next_state", g.Concat(1, g.Op("Where", missing, g.Number(onnx.Double, 0), window),
		g.Cast(g.Op("Not", missing), onnx.Double)), onnx.Double, "the rows with the new one", onnx.Dims(shape...)...)
	return window
}

// measure adds encoder.from, of the targets of the rows that a forecast sees, as stored (lookback, targets).
func (x *onnxModel) measure(v onnx.Value) *onnxWindow {
	g, targets := x.g, len(x.targets())
	number := func(c float64) onnx.Value { return g.Number(onnx.Double, c) }
	past := x.filled(v)
	w := &onnxWindow{last: g.Slice(past, 0, g.Ints(-1), g.Ints(math.MaxInt32)), scale: x.perTarget(deviationOf)}
	if x.Local {
		missing := g.Op("IsNaN", v)
		d := g.Op("Where", missing, number(0), g.Op("Sub", v, x.perTarget(meanOf)))
		n := g.Sum(g.Cast(g.Op("Not", missing), onnx.Double), 0)
		some := g.Op("Max", n, number(1))
		off := g.Op("Div", g.Sum(d, 0), some)
		square := g.Op("Sub", g.Op("Div", g.Sum(g.Op("Mul", d, d), 0), some), g.Op("Mul", off, off))
		least := x.perTarget(func(c *Column) float64 { return smallest * c.Deviation })
		scale := g.Op("Max", least, g.Op("Sqrt", g.Op("Max", square, number(0))))
		w.scale = g.Op("Where", g.Op("Greater", n, number(0)), scale, w.scale)
	}
	if x.Linear == nil {
		w.ahead = g.Doubles(make([]float64, x.Horizon*targets), x.Horizon, targets)
		return w
	}
	order := x.Linear.Order
	var weights []float64
	for _, of := range x.Linear.Weights {
		for _, v := range of {
			weights = append(weights, float64(v))
		}
	}
	d := g.Op("Sub", g.Slice(past, 0, g.Ints(-order), g.Ints(math.MaxInt32)), w.last)
	turned := func(v onnx.Value) onnx.Value {
		return g.With("Transpose", []onnx.Attr{{Name: "perm", Value: []int{1, 0}}}, v)
	}
	ahead := g.Op("MatMul", g.Reshape(turned(d), targets, 1, order),
		g.Doubles(weights, targets, order, x.Horizon))
	w.ahead = turned(g.Reshape(ahead, targets, x.Horizon))
	return w
}
