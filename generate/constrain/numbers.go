package constrain

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
)

// digits is the most digits of a number before the point and after it, where no bound says otherwise: so that a model
// cannot write them forever.
const digits = 20

// limit is a bound of a number.
type limit struct {
	path   string
	at     *big.Rat
	beyond bool // at itself is not allowed
}

// limits are the bounds of a number, nil for none.
type limits struct{ low, high *limit }

var plainNumber = regexp.MustCompile(`^-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?$`)

// rational is a number exactly, nil for one of more digits than are of use.
func rational(x json.Number) *big.Rat {
	if !plainNumber.MatchString(string(x)) {
		return nil
	}
	r, _ := new(big.Rat).SetString(string(x))
	return r
}

// limitsOf are the bounds that nodes set.
func limitsOf(all []*node) (l limits) {
	take := func(to **limit, n *node, key string, side int, beyond bool) {
		x, ok := n.bounds[key]
		if !ok {
			return
		}
		at := rational(x.value)
		if at == nil {
			fail(x.path, "found %.60s, want a number of at most 40 digits", x.value)
		}
		if *to == nil || at.Cmp((*to).at) == side || at.Cmp((*to).at) == 0 && beyond {
			*to = &limit{x.path, at, beyond}
		}
	}
	for _, n := range all {
		take(&l.low, n, "minimum", 1, false)
		take(&l.low, n, "exclusiveMinimum", 1, true)
		take(&l.high, n, "maximum", -1, false)
		take(&l.high, n, "exclusiveMaximum", -1, true)
	}
	return l
}

// allow reports whether a number is within the bounds.
func (l limits) allow(v json.Number) bool {
	x := rational(v)
	if x == nil {
		return l.low == nil && l.high == nil
	}
	return (l.low == nil || x.Cmp(l.low.at) > 0 || !l.low.beyond && x.Cmp(l.low.at) == 0) &&
		(l.high == nil || x.Cmp(l.high.at) < 0 || !l.high.beyond && x.Cmp(l.high.at) == 0)
}

// integers are the least and the largest integer within the bounds, nil for no bound.
func (l limits) integers() (low, high *big.Int) {
	floor := func(x *big.Rat) *big.Int { return new(big.Int).Div(x.Num(), x.Denom()) } // the divisor is positive
	one := big.NewInt(1)
	if l.low != nil {
		if low = floor(l.low.at); !l.low.at.IsInt() || l.low.beyond {
			low.Add(low, one)
		}
	}
	if l.high != nil {
		if high = floor(l.high.at); l.high.at.IsInt() && l.high.beyond {
			high.Sub(high, one)
		}
	}
	return low, high
}

// integer takes an integer.
func (u *units) integer(all []*node) int32 {
	low, high := limitsOf(all).integers()
	b, ways := u.b, []int32{}
	if high == nil || high.Sign() >= 0 {
		from := new(big.Int)
		if low != nil && low.Sign() > 0 {
			from = low
		}
		ways = append(ways, b.counting(from, high, final))
	}
	if low == nil || low.Sign() < 0 {
		from, to := big.NewInt(1), (*big.Int)(nil)
		if high != nil && high.Sign() < 0 {
			from = new(big.Int).Neg(high)
		}
		if low != nil {
			to = new(big.Int).Neg(low)
		}
		ways = append(ways, b.text("-", b.counting(from, to, final)))
	}
	return b.either(ways...)
}

// counting takes an integer from low, which is not negative, to high, nil for no bound, without leading zeros.
func (b *builder) counting(low, high *big.Int, next int32) int32 {
	from := low.String()
	to := strings.Repeat("9", max(digits, len(from)))
	if high != nil {
		if low.Cmp(high) > 0 {
			return b.nothing()
		}
		to = high.String()
	}
	var ways []int32
	for n := len(from); n <= len(to); n++ {
		l, h := "1"+strings.Repeat("0", n-1), strings.Repeat("9", n)
		if n == len(from) {
			l = from
		}
		if n == len(to) {
			h = to
		}
		ways = append(ways, b.between(l, h, next))
	}
	return b.either(ways...)
}

// between takes the digits from low to high, which are equally long.
func (b *builder) between(low, high string, next int32) int32 {
	if low == "" {
		return next
	}
	n := len(low) - 1
	zeros, nines := strings.Repeat("0", n), strings.Repeat("9", n)
	if low[0] == high[0] {
		return b.bytes(low[0], low[0], b.between(low[1:], high[1:], next))
	}
	var ways []int32
	l, h := low[0], high[0]
	if low[1:] != zeros {
		ways = append(ways, b.bytes(l, l, b.between(low[1:], nines, next)))
		l++
	}
	if high[1:] != nines {
		ways = append(ways, b.bytes(h, h, b.between(zeros, high[1:], next)))
		h--
	}
	if l <= h {
		at := next
		for range n {
			at = b.bytes('0', '9', at)
		}
		ways = append(ways, b.bytes(l, h, at))
	}
	return b.either(ways...)
}

// number takes a number. One with bounds has no exponent, and its bounds must be integers.
func (u *units) number(all []*node) int32 {
	b, l := u.b, limitsOf(all)
	for _, bound := range []*limit{l.low, l.high} {
		if bound != nil && !bound.at.IsInt() {
			fail(bound.path, "found %s for a number, want an integer: other bounds only hold for integers",
				bound.at.RatString())
		}
	}
	if l.low == nil && l.high == nil {
		exponent := b.either(b.bytes('0', '9', final), b.bytes('1', '9', b.bytes('0', '9', final)))
		exponent = b.either(exponent, b.text("+", exponent), b.text("-", exponent))
		end := b.either(final, b.text("e", exponent), b.text("E", exponent))
		size := b.counting(new(big.Int), nil, b.either(end, b.text(".", b.fraction(digits, end))))
		return b.either(size, b.text("-", size))
	}
	negative := func(x *limit) *limit {
		if x == nil {
			return nil
		}
		return &limit{x.path, new(big.Rat).Neg(x.at), x.beyond}
	}
	zero := &limit{at: new(big.Rat)}
	ways := []int32{}
	if l.high == nil || l.high.at.Sign() >= 0 {
		low := l.low
		if low == nil || low.at.Sign() < 0 {
			low = zero
		}
		ways = append(ways, b.magnitude(low, l.high))
	}
	if l.low == nil || l.low.at.Sign() < 0 {
		low := &limit{at: new(big.Rat), beyond: true}
		if l.high != nil && l.high.at.Sign() < 0 {
			low = negative(l.high)
		}
		ways = append(ways, b.text("-", b.magnitude(low, negative(l.low))))
	}
	return b.either(ways...)
}

// magnitude takes a number without a sign, from low to high, nil for no bound.
func (b *builder) magnitude(low, high *limit) int32 {
	from, one := low.at.Num(), big.NewInt(1)
	ways := []int32{}
	if low.beyond { // low itself needs a fraction
		if high == nil || from.Cmp(high.at.Num()) < 0 {
			ways = append(ways, b.text(from.String()+".", b.fractionAboveZero(digits)))
		}
		from = new(big.Int).Add(from, one)
	}
	tail := b.either(final, b.text(".", b.fraction(digits, final)))
	if high == nil {
		return b.either(append(ways, b.counting(from, nil, tail))...)
	}
	to := high.at.Num()
	if !high.beyond && from.Cmp(to) <= 0 {
		ways = append(ways, b.text(to.String(), final))
	}
	ways = append(ways, b.counting(from, new(big.Int).Sub(to, one), tail))
	return b.either(ways...)
}

// fraction takes one to n digits.
func (b *builder) fraction(n int, next int32) int32 {
	at := b.bytes('0', '9', next)
	for range n - 1 {
		at = b.bytes('0', '9', b.either(next, at))
	}
	return at
}

// fractionAboveZero takes one to n digits that are not all zero.
func (b *builder) fractionAboveZero(n int) int32 {
	at, any := b.bytes('1', '9', final), final
	for range n - 1 {
		any = b.either(final, b.bytes('0', '9', any))
		at = b.either(b.bytes('1', '9', any), b.bytes('0', '0', at))
	}
	return at
}
