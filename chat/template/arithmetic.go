package template

import (
	"math"
	"slices"
	"strings"
)

func (x *binaryExpr) eval(r *run) value {
	r.step(0)
	a, b := x.a.eval(r), x.b.eval(r)
	if x.op == "~" {
		s, t := r.str(a), r.str(b)
		r.spend(len(s) + len(t))
		return s + t
	}
	if n, ok := integer(a); ok {
		if m, ok := integer(b); ok && x.op != "/" && !(x.op == "**" && m < 0) {
			return r.integers(x.op, n, m)
		}
	}
	if f, ok := number(a); ok {
		if g, ok := number(b); ok {
			return r.floats(x.op, f, g)
		}
	}
	return r.sequences(x.op, a, b)
}

// integers computes with whole numbers. The result must fit into 64 bits.
func (r *run) integers(op string, n, m int64) value {
	fits := true
	var v int64
	switch op {
	case "+":
		v = n + m
		fits = (v > n) == (m > 0)
	case "-":
		v = n - m
		fits = (v < n) == (m > 0)
	case "*":
		v = n * m
		fits = n == 0 || v/n == m && !(n == -1 && m == math.MinInt64)
	case "**":
		v = 1
		for range m {
			next := v * n
			r.spend(1)
			if fits = v == 0 || next/v == n; !fits || v == next && m > 64 {
				break
			}
			v = next
		}
		if n == -1 && m%2 == 0 {
			v = 1
		}
	default: // "//" and "%" round down
		if m == 0 {
			r.fail("found a division by zero")
		}
		quotient, rest := n/m, n%m
		if rest != 0 && (rest < 0) != (m < 0) {
			quotient, rest = quotient-1, rest+m
		}
		if op == "%" {
			return rest
		}
		return quotient
	}
	if !fits {
		r.fail("%d %s %d is too large a number", n, op, m)
	}
	return v
}

func (r *run) floats(op string, f, g float64) value {
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "**":
		return math.Pow(f, g)
	}
	if g == 0 {
		r.fail("found a division by zero")
	}
	switch op {
	case "/":
		return f / g
	case "//":
		return math.Floor(f / g)
	}
	rest := math.Mod(f, g)
	if rest != 0 && (rest < 0) != (g < 0) {
		rest += g
	}
	return rest
}

// sequences concatenates texts and lists, and repeats them.
func (r *run) sequences(op string, a, b value) value {
	switch s := a.(type) {
	case string:
		if t, ok := b.(string); ok && op == "+" {
			r.spend(len(s) + len(t))
			return s + t
		}
	case *list:
		if t, ok := b.(*list); ok && op == "+" && s.tuple == t.tuple {
			r.spend(itemWork * (len(s.items) + len(t.items)))
			return &list{slices.Concat(s.items, t.items), s.tuple}
		}
	}
	if n, ok := integer(a); ok && op == "*" {
		a, b = b, n
	}
	if n, ok := integer(b); ok && op == "*" {
		n = max(n, 0)
		switch s := a.(type) {
		case string:
			r.times(int64(len(s)), n)
			return strings.Repeat(s, int(n))
		case *list:
			r.times(int64(itemWork*len(s.items)), n)
			return &list{slices.Repeat(s.items, int(n)), s.tuple}
		}
	}
	r.fail("found %s %s %s, want numbers, or texts to add", typeName(a), op, typeName(b))
	return nil
}

// times counts the work for n items of a size.
func (r *run) times(size, n int64) {
	if size > 0 && n > math.MaxInt32 || size*n > math.MaxInt32 {
		r.spend(maxWork * inputWork) // more than is ever left
	}
	r.spend(int(size*n) + int(min(n, math.MaxInt32)))
}
