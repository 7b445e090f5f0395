package figure

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
)

// The approximate number of ticks on an axis.
const (
	wantTicks = 6
	mostTicks = 9
)

// axis is the range of an axis, and its ticks.
type axis struct {
	lo, hi float64
	log    bool
	ticks  []plot.Tick
}

// newAxis returns an axis for values, which must be sorted and not empty and, for a logarithmic axis, above zero. A
// vertical axis starts and ends at ticks.
func newAxis(values []float64, log, vertical bool) axis {
	values = slices.Compact(slices.Clone(values))
	a := axis{lo: values[0], hi: values[len(values)-1], log: log}
	var at []float64
	switch {
	case a.hi-a.lo <= max(1/largest, 1e-9*math.Abs(a.hi)): // otherwise several ticks would have the same label
		a.around(a.lo)
		at = values[:1]
		if vertical {
			at = a.ticksAt()
		}
	case log && powersOfTwo(values):
		at = binaryTicks(a.lo, a.hi)
	default:
		if !log && vertical {
			at = a.widen()
		} else {
			at = a.ticksAt()
		}
	}
	if log {
		pad := math.Pow(a.hi/a.lo, .03)
		if !vertical {
			pad = 1
		}
		a.lo, a.hi = a.lo/pad, a.hi*pad
	}
	for i, v := range at {
		a.ticks = append(a.ticks, plot.Tick{Value: v, Label: a.label(v, at, i)})
	}
	return a
}

// around sets the range for a single value.
func (a *axis) around(v float64) {
	switch {
	case a.log:
		a.lo, a.hi = v/2, v*2
	case math.Abs(v) <= 1/largest:
		a.lo, a.hi = -1, 1
	default:
		a.lo, a.hi = v-math.Abs(v)/2, v+math.Abs(v)/2
	}
}

// widen extends the range of a linear axis to ticks, and to zero if that is near. It returns the ticks.
func (a *axis) widen() []float64 {
	if a.lo > 0 && a.lo < .35*a.hi {
		a.lo = 0
	}
	step := roundStep(a.lo, a.hi, wantTicks)
	a.lo, a.hi = math.Floor(a.lo/step+1e-9)*step, math.Ceil(a.hi/step-1e-9)*step
	return multiples(a.lo, a.hi, step)
}

// ticksAt returns the round numbers within the axis. A logarithmic axis of more than a decade has powers of ten, and 2
// and 5 times these if there is room.
func (a *axis) ticksAt() []float64 {
	if !a.log || a.hi/a.lo < 10 {
		at := multiples(a.lo, a.hi, roundStep(a.lo, a.hi, wantTicks))
		for n := wantTicks + 1; len(at) < 3; n++ { // the range starts right after one tick and ends before another
			at = multiples(a.lo, a.hi, roundStep(a.lo, a.hi, n))
		}
		return at
	}
	first, last := int(math.Floor(math.Log10(a.lo))), int(math.Ceil(math.Log10(a.hi)))
	within := func(every int, digits ...float64) (at []float64) {
		for e := first; e <= last; e++ {
			for _, d := range digits {
				if v := d * math.Pow10(e); (e%every+every)%every == 0 && a.lo*(1-1e-9) <= v && v <= a.hi*(1+1e-9) {
					at = append(at, v)
				}
			}
		}
		return at
	}
	if at := within(1, 1, 2, 5); len(at) <= mostTicks {
		return at
	}
	for every := 1; ; every++ {
		if at := within(every, 1); len(at) <= mostTicks {
			return at
		}
	}
}

// roundStep returns 1, 2 or 5 times a power of ten, so that there are about the given number of ticks from lo to hi.
func roundStep(lo, hi float64, ticks int) float64 {
	rough := (hi - lo) / float64(ticks-1)
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{1, 2, 5} {
		if rough <= m*power*1.2 {
			return m * power
		}
	}
	return 10 * power
}

// multiples returns the multiples of step from lo to hi.
func multiples(lo, hi, step float64) []float64 {
	var at []float64
	for i := math.Ceil(lo/step - 1e-9); i <= hi/step+1e-9; i++ {
		at = append(at, i*step)
	}
	return at
}

func powersOfTwo(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool {
		m, _ := math.Frexp(v)
		return m != .5
	})
}

// binaryTicks returns powers of two from lo to hi: all of them or every second, third, ...
func binaryTicks(lo, hi float64) []float64 {
	n := int(math.Round(math.Log2(hi / lo)))
	every := n/mostTicks + 1
	var at []float64
	for i := 0; i <= n; i += every {
		at = append(at, math.Ldexp(lo, i))
	}
	return at
}

// set sets the range and the ticks of an axis of a plot.
func (a axis) set(p *plot.Axis) {
	p.Min, p.Max = a.lo, a.hi
	p.Tick.Marker = plot.ConstantTicks(a.ticks)
	if a.log {
		p.Scale = plot.LogScale{}
	}
}

// label returns the text of tick i of at, with as many decimals as the adjacent ticks need: 0.5, 20, 15k, 2M, 5e-6.
func (a *axis) label(v float64, at []float64, i int) string {
	size := math.Abs(v)
	switch {
	case v == 0:
		return "0"
	case size < .9e-3 || size >= 1e13:
		digits := 3
		if !a.log && len(at) > 1 { // enough to distinguish adjacent ticks
			digits = max(digits, int(math.Floor(math.Log10(size))-math.Floor(math.Log10(at[1]-at[0])+1e-9)))
		}
		return scientific(v, digits)
	case powersOfTwo([]float64{size}) && size >= 1<<20 && a.log:
		return trim(v/(1<<20), 3) + "M"
	case powersOfTwo([]float64{size}) && size >= 1<<10 && a.log:
		return trim(v/(1<<10), 3) + "k"
	}
	for _, unit := range []struct {
		name string
		size float64
	}{{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if size >= unit.size && (a.log || unit.size > 1e3 || slices.ContainsFunc(at,
			func(w float64) bool { return math.Abs(w) >= 1e4 })) {
			return trim(v/unit.size, 6) + unit.name
		}
	}
	if a.log || len(at) < 2 {
		return trim(v, 6)
	}
	step := at[1] - at[0]
	return strconv.FormatFloat(v, 'f', max(0, int(math.Ceil(-math.Log10(step)-1e-9))), 64)
}

// trim formats a number with at most the given number of digits, without zeros at the end.
func trim(v float64, digits int) string { return strconv.FormatFloat(v, 'g', digits, 64) }

// scientific formats a number as 2e-5, where strconv writes 2e-05, with at most the given number of decimals. It does
// not use raised powers because the font has no raised minus.
func scientific(v float64, decimals int) string {
	digits, power, _ := strings.Cut(strconv.FormatFloat(v, 'e', decimals, 64), "e")
	n, _ := strconv.Atoi(power) // the text is from FormatFloat
	return strings.TrimRight(strings.TrimRight(digits, "0"), ".") + "e" + strconv.Itoa(n)
}
