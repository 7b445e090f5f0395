package constrain

import (
	"math/big"
	"strings"
)

// stepOf returns the number of which all numbers must be multiples: the least common multiple of multipleOf of all
// nodes and, for integers, of 1. It returns nil if no node has multipleOf.
func stepOf(all []*node, whole bool) (step *big.Rat) {
	for _, n := range all {
		x, ok := n.bounds["multipleOf"]
		if !ok {
			continue
		}
		at := rational(x.value)
		if at == nil || at.Sign() <= 0 {
			fail(x.path, "found %.60s, want a number above 0 of at most 40 digits", x.value)
		}
		step = common(step, at)
	}
	if step != nil && whole {
		step = common(step, big.NewRat(1, 1))
	}
	return step
}

// common returns the least common multiple of two numbers. a may be nil.
func common(a, b *big.Rat) *big.Rat {
	if a == nil {
		return b
	}
	high := new(big.Int).Mul(a.Num(), b.Num())
	high.Div(high, new(big.Int).GCD(nil, nil, a.Num(), b.Num()))
	return new(big.Rat).SetFrac(high, new(big.Int).GCD(nil, nil, a.Denom(), b.Denom()))
}

// decimals writes states that accept the numbers from low, which is not negative, to high that are multiples of a step.
// They accept digit by digit and track the remainder of the division by the step, and whether the digits so far equal
// those of a bound. The builder shares states that accept the same continuations.
type decimals struct {
	b         *builder
	low, high bool   // whether there are bounds; low is at least 0
	from, to  string // digits of the bounds, without the point
	whole     [2]int // number of these digits before the point
	open      [2]bool
	most      int // maximum number of digits before the point
	fraction  int // maximum number of digits after it
	step      int // step as an integer, in units of 10^-scale; 1 for any number
	scale     int // number of digits after the point in the step
	known     map[digit]int32
}

// digit is a position in a number.
type digit struct {
	// number of digits still to come before the point; below 0: minus the number of digits after it so far
	left      int
	low, high bool // the digits so far equal those of the bound
	rest      int  // remainder of the division by the step
}

// dead marks a position from which no number can be completed.
const dead int32 = -1

func newDecimals(b *builder, l limits, step *big.Rat, fraction int) *decimals {
	const mostStep, mostDigits, states = 1 << 14, 20, 1500
	d := &decimals{b: b, most: digits, fraction: fraction, step: 1, known: map[digit]int32{}}
	plain := func(x *limit, i int) string {
		if x == nil {
			return ""
		}
		text := x.at.FloatString(200) // bounds have at most 40 digits and an exponent
		before, after, _ := strings.Cut(text, ".")
		if after = strings.TrimRight(after, "0"); len(after) > 2*mostDigits {
			fail(x.path, "found a bound with %d digits after the point, want at most %d", len(after), 2*mostDigits)
		}
		d.whole[i], d.open[i] = len(before), x.beyond
		if d.fraction > 0 {
			d.fraction = max(d.fraction, len(after))
		}
		return before + after
	}
	if d.from = plain(l.low, 0); l.low == nil {
		d.from, d.whole[0] = "0", 1
	}
	d.low = true
	d.to, d.high = plain(l.high, 1), l.high != nil
	if step != nil {
		d.scale = 0
		text := strings.TrimRight(step.FloatString(200), "0")
		if at := strings.IndexByte(text, '.'); at >= 0 {
			d.scale = len(text) - at - 1
		}
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.scale)), nil)
		units := new(big.Rat).Mul(step, new(big.Rat).SetInt(power))
		if !units.IsInt() || units.Num().Cmp(big.NewInt(mostStep)) > 0 {
			fail(b.path, "found multiples of %s, want digits of at most %d in it: the grammar remembers the rest of a "+
				"division by them", step.FloatString(d.scale), mostStep)
		}
		d.step, d.fraction = int(units.Num().Int64()), d.scale
		d.most = min(digits, len(units.Num().String())+1+states/d.step)
	}
	d.most = max(d.most, d.whole[0])
	return d
}

// write writes states that accept a number.
func (d *decimals) write(next int32) int32 {
	var ways []int32
	for n := d.whole[0]; n <= d.most && (!d.high || n <= d.whole[1]); n++ {
		at := digit{left: n, low: n == d.whole[0], high: d.high && n == d.whole[1]}
		if way := d.digits(at, n == 1, next); way != dead {
			ways = append(ways, way)
		}
	}
	return d.b.either(ways...)
}

// at returns the state at a position, where the number may end or continue.
func (d *decimals) at(p digit, next int32) int32 {
	if s, ok := d.known[p]; ok {
		return s
	}
	var ways []int32
	if p.left <= 0 && d.ends(p) {
		ways = append(ways, next)
	}
	if p.left > -d.fraction {
		if more := d.digits(p, true, next); more != dead {
			if p.left == 0 {
				more = d.b.text(".", more)
			}
			ways = append(ways, more)
		}
	}
	s := dead
	if len(ways) > 0 {
		s = d.b.either(ways...)
	}
	d.known[p] = s
	return s
}

// ends reports whether the number may end at p. The digits that are not written count as zeros in comparisons with the
// bounds.
func (d *decimals) ends(p digit) bool {
	rest := p.rest
	for range d.scale + min(p.left, 0) {
		rest = rest * 10 % d.step
	}
	more := func(text string, whole int) bool {
		return strings.Trim(text[min(len(text), whole-p.left):], "0") != ""
	}
	return rest == 0 && !(p.low && (more(d.from, d.whole[0]) || d.open[0])) &&
		!(p.high && !more(d.to, d.whole[1]) && d.open[1])
}

// digits writes states that accept the next digit and the rest of the number. zero permits the digit 0.
func (d *decimals) digits(p digit, zero bool, next int32) int32 {
	bound := func(there bool, text string, whole, free int) int {
		if i := whole - p.left; there && i < len(text) {
			return int(text[i] - '0')
		} else if there {
			return 0
		}
		return free
	}
	low, high := bound(p.low, d.from, d.whole[0], 0), bound(p.high, d.to, d.whole[1], 9)
	from := low
	if !zero {
		from = max(from, 1)
	}
	var ways []int32
	begin, same := from, dead
	for x := from; x <= high+1; x++ {
		at := dead
		if x <= high {
			at = d.at(digit{p.left - 1, p.low && x == low, p.high && x == high, (10*p.rest + x) % d.step}, next)
		}
		if x == from {
			same = at
		} else if at != same || x > high {
			if same != dead {
				ways = append(ways, d.b.bytes(byte('0'+begin), byte('0'+x-1), same))
			}
			begin, same = x, at
		}
	}
	if len(ways) == 0 {
		return dead
	}
	return d.b.either(ways...)
}
