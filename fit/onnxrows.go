package fit

import (
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/onnx"
	"github.com/hippo-ssm/hippo/table"
)

// onnxWindow holds the offset and the scale of the numbers of a forecast: see encoder.from. Values are of type Double.
type onnxWindow struct {
	last, scale onnx.Value // (1, targets)
	ahead       onnx.Value // (horizon, targets): the forecast to which the network's output is added, minus last
}

// encode adds the computation of encoder.row for rows (n, columns). It returns the inputs of the network (n, channels),
// of type Float. w is nil unless it is for a forecast. asked is true for the rows to be predicted.
func (x *onnxModel) encode(rows, seconds, times onnx.Value, w *onnxWindow, asked bool) onnx.Value {
	g := x.g
	var numbers, numbersOf, texts []int // places in x.columns, and of numbers whose targets they are
	var sub, div, class []float64
	var gaps []int                                                 // indices in numbers
	place := map[string]int{}                                      // index in parts of each input of the network
	numberAt, gapAt, classAt := []string{}, []string{}, []string{} // names of the parts
	for at, i := range x.columns {
		c := &x.Columns[i]
		switch {
		case !c.In:
		case c.Kind == table.Category:
			for k := range c.Classes {
				texts, class = append(texts, at), append(class, float64(k))
				classAt = append(classAt, fmt.Sprint("class ", i, " ", k))
			}
		default:
			if c.Gaps {
				gaps, gapAt = append(gaps, len(numbers)), append(gapAt, fmt.Sprint("gap ", i))
			}
			numbers, numbersOf = append(numbers, at), append(numbersOf, slices.Index(x.targets(), i))
			sub, div = append(sub, c.Mean), append(div, c.Deviation)
			numberAt = append(numberAt, fmt.Sprint("number ", i))
		}
	}
	var parts []onnx.Value
	total := 0
	add := func(v onnx.Value, names ...string) {
		if len(names) == 0 {
			return
		}
		parts = append(parts, v)
		for _, name := range names {
			place[name] = total
			total++
		}
	}
	if len(numbers) > 0 {
		v := x.stored(rows, numbers)
		missing := g.Op("IsNaN", v)
		from, by := g.Doubles(sub, 1, len(sub)), g.Doubles(div, 1, len(div))
		if w != nil {
			from, by = x.ofTargets(from, w.last, numbersOf), x.ofTargets(by, w.scale, numbersOf)
		}
		z := g.Op("Where", missing, g.Number(onnx.Double, 0), g.Op("Div", g.Op("Sub", v, from), by))
		if asked {
			z = x.ofTargets(z, g.Op("Div", w.ahead, w.scale), numbersOf)
		}
		add(g.Cast(z, onnx.Float), numberAt...)
		if len(gaps) > 0 {
			flags := g.Cast(g.Gather(missing, 1, gaps...), onnx.Float)
			if asked {
				flags = g.Op("Mul", flags, g.Number(onnx.Float, 0))
			}
			add(flags, gapAt...)
		}
	}
	if len(texts) > 0 {
		same := g.Op("Equal", g.Gather(rows, 1, texts...), g.Doubles(class, 1, len(class)))
		add(g.Cast(same, onnx.Float), classAt...)
	}
	if x.timeGoesIn() {
		add(x.logSteps(seconds), "since")
	}
	if n := len(x.Calendar); n > 0 {
		known := g.Op("Not", g.Op("IsNaN", times))
		angle := g.Cast(g.Op("Mul", times, g.Number(onnx.Double, 2*math.Pi)), onnx.Float)
		for _, f := range []string{"Sin", "Cos"} {
			v := g.Op("Where", known, g.Op(f, angle), g.Number(onnx.Float, 0))
			var names []string
			for k := range n {
				names = append(names, fmt.Sprint(f, " ", k))
			}
			add(v, names...)
		}
	}
	if x.Task == Forecast {
		n := x.Lookback
		if asked {
			n = x.Horizon
		}
		add(g.Floats(slices.Repeat([]float64{float64(bit(asked))}, n), n, 1), "asked")
	}
	return g.Gather(g.Concat(1, parts...), 1, x.order(place)...)
}

// order returns the index in parts of each input of the network, in the network's order: see Plan.inputs.
func (x *onnxModel) order(place map[string]int) (all []int) {
	take := func(names ...any) {
		if at, ok := place[fmt.Sprint(names...)]; ok {
			all = append(all, at)
		}
	}
	for i := range x.Columns {
		take("number ", i)
		take("gap ", i)
		for k := range x.Columns[i].Classes {
			take("class ", i, " ", k)
		}
	}
	take("since")
	for k := range x.Calendar {
		take("Sin ", k)
		take("Cos ", k)
	}
	take("asked")
	return all
}

// ofTargets replaces columns of v by those of targets. of holds for each column of v the index of the target, -1 for
// none.
func (x *onnxModel) ofTargets(v, targets onnx.Value, of []int) onnx.Value {
	var places []int
	for at, k := range of {
		if k >= 0 {
			at = len(of) + k
		}
		places = append(places, at)
	}
	return x.g.Gather(x.g.Concat(1, v, targets), 1, places...)
}

// logSteps adds the computation of the function logSteps for seconds (n), and returns (n, 1).
func (x *onnxModel) logSteps(seconds onnx.Value) onnx.Value {
	g, number := x.g, func(v float64) onnx.Value { return x.g.Number(onnx.Double, v) }
	if !(x.Step > 0) {
		return g.Cast(g.Reshape(g.Op("Mul", g.Cast(g.Op("IsNaN", seconds), onnx.Double), number(0)), -1, 1), onnx.Float)
	}
	steps := g.Op("Where", g.Op("Greater", seconds, number(0)), g.Op("Div", seconds, number(x.Step)), number(1))
	log := g.Op("Max", g.Op("Min", g.Op("Log", steps), number(mostSteps)), number(-mostSteps))
	return g.Cast(g.Reshape(log, -1, 1), onnx.Float)
}

// Functions for perTarget that return a number of a column.
func meanOf(c *Column) float64      { return c.Mean }
func deviationOf(c *Column) float64 { return c.Deviation }
func changeOf(c *Column) float64    { return c.Change }

// perTarget returns a constant with a number for each target, (1, targets).
func (x *onnxModel) perTarget(f func(c *Column) float64) onnx.Value {
	var all []float64
	for _, i := range x.targets() {
		all = append(all, f(&x.Columns[i]))
	}
	return x.g.Doubles(all, 1, len(all))
}

// stored returns columns of rows in the form of Column.stored: minus their bases, or their logarithms.
func (x *onnxModel) stored(rows onnx.Value, places []int) onnx.Value {
	g, base, log := x.g, make([]float64, len(places)), make([]bool, len(places))
	for k, at := range places {
		if c := &x.Columns[x.columns[at]]; c.Log {
			log[k] = true
		} else {
			base[k] = c.Base
		}
	}
	v := g.Gather(rows, 1, places...)
	y := g.Op("Sub", v, g.Doubles(base, 1, len(base)))
	if slices.Contains(log, true) { // the logarithm of a number that is not positive is missing
		positive := g.Op("Where", g.Op("Greater", v, g.Number(onnx.Double, 0)), v, g.Number(onnx.Double, math.NaN()))
		y = g.Op("Where", g.Bools(log, 1, len(log)), g.Op("Log", positive), y)
	}
	return y
}

// given returns the targets of rows as stored, (n, targets).
func (x *onnxModel) given(rows onnx.Value) onnx.Value {
	var at []int
	for _, i := range x.targets() {
		at = append(at, slices.Index(x.columns, i))
	}
	return x.stored(rows, at)
}

// filled replaces each NaN of v (n, targets) by the previous number, or by the mean.
func (x *onnxModel) filled(v onnx.Value) onnx.Value {
	k := []int{len(x.targets())}
	_, all := x.g.Scan("filled", onnx.Double, x.g.Reshape(x.perTarget(meanOf), k...), k, v, k,
		func(b *onnx.Graph, state, v onnx.Value) (next, out onnx.Value) {
			now := b.Op("Where", b.Op("IsNaN", v), state, v)
			return now, b.Op("Identity", now)
		})
	return all
}

// ordered returns outputs of the network (n, targets·levels) as quantiles on its scale, (n, targets, levels), as
// Model.quantiles orders and widens them.
func (x *onnxModel) ordered(y onnx.Value) onnx.Value {
	g, levels, middle := x.g, len(x.Levels), x.middle()
	q := g.Sort(g.Reshape(g.Cast(y, onnx.Double), -1, len(x.targets()), levels), levels)
	if len(x.Widen) == 0 {
		return q
	}
	steps := max(1, x.Horizon)
	add := make([]float64, 0, steps*len(x.targets())*levels)
	low, high := make([]bool, levels), make([]bool, levels)
	for h := range steps {
		for k := range x.targets() {
			by := make([]float64, levels)
			for pair, wide := range x.Widen[k] {
				if above := levels - 1 - pair; pair < middle && above > middle {
					low[pair], high[above] = true, true
					by[above] = wide[min(h, len(wide)-1)]
					by[pair] = -by[above]
				}
			}
			add = append(add, by...)
		}
	}
	wide := g.Op("Add", q, g.Doubles(add, steps, len(x.targets()), levels))
	median := g.Slice(q, 2, g.Ints(middle), g.Ints(middle+1))
	q = g.Op("Where", g.Bools(high, levels), g.Op("Max", wide, median), q)
	q = g.Op("Where", g.Bools(low, levels), g.Op("Min", wide, median), q)
	return g.Sort(q, levels)
}

// inUnits converts quantiles on the network's scale to the units of the data: Column.number of q·scale + from. scale
// and from are (1, targets) or (n, targets).
func (x *onnxModel) inUnits(q, scale onnx.Value, from ...onnx.Value) onnx.Value {
	g, targets := x.g, len(x.targets())
	column := func(v onnx.Value) onnx.Value { return g.Reshape(v, -1, targets, 1) }
	q = g.Op("Mul", q, column(scale))
	var base []float64
	var log []bool
	for _, i := range x.targets() {
		c := &x.Columns[i]
		base, log = append(base, c.number(0)), append(log, c.Log)
	}
	for _, v := range from {
		q = g.Op("Add", q, column(v))
	}
	y := g.Op("Add", q, g.Doubles(base, targets, 1))
	if slices.Contains(log, true) {
		y = g.Op("Where", g.Bools(log, targets, 1), g.Op("Exp", q), y)
	}
	return y
}

// numbers adds the quantiles of outputs and, for anomalies, the score of a row.
func (x *onnxModel) numbers(y onnx.Value, rows onnx.Dim) {
	g, targets, levels := x.g, len(x.targets()), len(x.Levels)
	q, doc := x.ordered(y), "of the targets, at the levels"
	switch {
	case !x.predictsNext():
		q = x.inUnits(q, x.perTarget(deviationOf), x.perTarget(meanOf))
	case x.Task == Next:
		now, _ := x.now()
		q = x.inUnits(q, x.perTarget(changeOf), now)
	default:
		doc += ": what was expected of the row from those before it, NaN of the first"
		q = x.expected(q)
		g.Output("score", x.score(q), onnx.Double, "how unexpected the row is", rows)
	}
	g.Output("quantiles", q, onnx.Double, doc, rows, onnx.Dim{N: targets}, onnx.Dim{N: levels})
}

// now returns the last number of each target up to a row. In the form of steps, it also returns that up to the previous
// row.
func (x *onnxModel) now() (now, before onnx.Value) {
	g, v := x.g, x.given(x.in)
	if !x.step {
		return x.filled(v), ""
	}
	before = g.Op("Add", g.Cast(g.Reshape(x.carry("last", len(x.targets())), 1, -1), onnx.Double), x.perTarget(meanOf))
	now = g.Op("Where", g.Op("IsNaN", v), before, v)
	x.carried = append(x.carried, g.Reshape(g.Cast(g.Op("Sub", now, x.perTarget(meanOf)), onnx.Float), -1))
	return now, before
}

// expected returns the previous row's prediction for each row. q are quantiles of the next row on the network's scale.
func (x *onnxModel) expected(q onnx.Value) onnx.Value {
	g, targets, levels := x.g, len(x.targets()), len(x.Levels)
	now, before := x.now()
	nan := g.Doubles(slices.Repeat([]float64{math.NaN()}, targets*levels), 1, targets, levels)
	if !x.step {
		q = x.inUnits(q, x.perTarget(changeOf), now)
		return g.Slice(g.Concat(0, nan, q), 0, g.Ints(0), g.Ints(-1))
	}
	last := g.Cast(g.Reshape(x.carry("expected", targets*levels), 1, targets, levels), onnx.Double)
	seen := x.carry("count", 1)
	x.carried = append(x.carried, g.Reshape(g.Cast(q, onnx.Float), -1), g.Op("Add", seen, g.Number(onnx.Float, 1)))
	return g.Op("Where", g.Op("Greater", seen, g.Number(onnx.Float, 0)),
		x.inUnits(last, x.perTarget(changeOf), before), nan)
}

// score adds the computation of Plan.surprise for the rows, from the quantiles expected of them.
func (x *onnxModel) score(q onnx.Value) onnx.Value {
	g, levels := x.g, len(x.Levels)
	z := math.Sqrt2 * math.Erfinv(2*x.Levels[levels-1]-1)
	level := func(i int) onnx.Value {
		return g.Reshape(g.Gather(q, 2, i), -1, len(x.targets()))
	}
	truth := g.Op("Add", x.given(x.in), x.perTarget(func(c *Column) float64 { return c.Base }))
	wide := g.Op("Div", g.Op("Sub", level(levels-1), level(0)), g.Number(onnx.Double, 2*z))
	least := x.perTarget(func(c *Column) float64 { return 1e-3 * c.Change })
	d := g.Op("Div", g.Op("Sub", truth, level(x.middle())), g.Op("Max", wide, least))
	missing := g.Op("IsNaN", truth)
	sum := g.Sum(g.Op("Where", missing, g.Number(onnx.Double, 0), g.Op("Mul", d, d)), 1)
	return g.Op("Sqrt", g.Op("Div", sum, g.Sum(g.Cast(g.Op("Not", missing), onnx.Double), 1)))
}
