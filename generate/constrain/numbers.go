package constrain

import (
	"encoding/json"
	"math/big"
	"regexp"
)

// digits is the maximum number of digits before the point and after it unless a bound has more, so that a model cannot
// write digits forever.
const digits = 20

// limit is a lower or upper bound of a number.
type limit struct {
	path   string
	at     *big.Rat
	beyond bool // at itself is not permitted
}

// limits holds the bounds of a number, nil for none.
type limits struct{ low, high *limit }

var plainNumber = regexp.MustCompile(`^-?[0-9]{1,40}(\.[0-9]{1,40})?([eE](\+?[0-9]{1,3}|-[0-9]{1,2}))?$`)

// rational returns the exact value of a number, or nil if the number has too many digits.
func rational(x json.Number) *big.Rat {
	if !plainNumber.MatchString(string(x)) {
		return nil
	}
	r, _ := new(big.Rat).SetString(string(x))
	return r
}

// limitsOf returns the bounds that nodes set.
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

// allowsNumber reports whether a number satisfies the bounds and multipleOf of all nodes.
func allowsNumber(all []*node, v json.Number) bool {
	l, x := limitsOf(all), rational(v)
	if x == nil {
		return l.low == nil && l.high == nil && stepOf(all, false) == nil
	}
	if step := stepOf(all, false); step != nil && !new(big.Rat).Quo(x, step).IsInt() {
		return false
	}
	return (l.low == nil || x.Cmp(l.low.at) > 0 || !l.low.beyond && x.Cmp(l.low.at) == 0) &&
		(l.high == nil || x.Cmp(l.high.at) < 0 || !l.high.beyond && x.Cmp(l.high.at) == 0)
}

// integer writes states that accept an integer.
func (u *units) integer(all []*node) int32 { return u.decimal(all, true) }

// number writes states that accept a number. A number with bounds or multipleOf has no exponent.
func (u *units) number(all []*node) int32 {
	b, l := u.b, limitsOf(all)
	if l.low != nil || l.high != nil || stepOf(all, false) != nil {
		return u.decimal(all, false)
	}
	exponent := b.either(b.bytes('0', '9', final), b.bytes('1', '9', b.bytes('0', '9', final)))
	exponent = b.either(exponent, b.text("+", exponent), b.text("-", exponent))
	end := b.either(final, b.text("e", exponent), b.text("E", exponent))
	size := newDecimals(b, limits{}, nil, digits).write(end)
	return b.either(size, b.text("-", size))
}

// decimal writes states that accept a number without exponent within the bounds of nodes.
func (u *units) decimal(all []*node, whole bool) int32 {
	b, l, step := u.b, limitsOf(all), stepOf(all, whole)
	b.path = where(all, "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
	fraction := digits
	if whole {
		fraction = 0
	}
	zero := &limit{at: new(big.Rat)}
	ways := []int32{}
	if l.high == nil || l.high.at.Sign() >= 0 {
		from := l.low
		if from == nil || from.at.Sign() < 0 {
			from = zero
		}
		ways = append(ways, newDecimals(b, limits{from, l.high}, step, fraction).write(final))
	}
	if l.low == nil || l.low.at.Sign() < 0 {
		from, to := &limit{at: new(big.Rat), beyond: true}, l.low.negative()
		if l.high != nil && l.high.at.Sign() < 0 {
			from = l.high.negative()
		}
		ways = append(ways, b.text("-", newDecimals(b, limits{from, to}, step, fraction).write(final)))
	}
	return b.either(ways...)
}

// negative returns the bound of -x.
func (l *limit) negative() *limit {
	if l == nil {
		return nil
	}
	return &limit{l.path, new(big.Rat).Neg(l.at), l.beyond}
}
