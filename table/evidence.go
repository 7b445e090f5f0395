package table

import (
	"fmt"
	"math"
	"strconv"
)

// The forms of numbers in a column: Column.Decimal, and Options.Decimal for all columns.
const (
	decimalPoint = "point" // 1,062.5
	decimalComma = "comma" // 1.062,5
	decimalAuto  = "auto"  // undecided so far
)

// evidence holds what the numbers of a column show about their form.
type evidence struct {
	texts, numbers int // texts that are not missing; those that are numbers in at least one form
	point, comma   int // numbers with a decimal point, and with a decimal comma

	onlyPoint, onlyComma string // first text that is a number in one form only
	either               string // first text that is a different number in each form, such as 1,062
	special              string // first text that a program would not write
	mark, other, bare    string // a currency or percent sign, the first text with another sign, and the first without
}

// add processes a text that is not missing.
func (e *evidence) add(text string) {
	e.texts++
	digits, mark := unmarked(text)
	p, point := parseNumber(digits, false)
	c, comma := parseNumber(digits, true)
	first := func(to *string, is bool) {
		if is && *to == "" {
			*to = text
		}
	}
	if point {
		e.point++
	}
	if comma {
		e.comma++
	}
	if !point && !comma {
		return
	}
	e.numbers++
	first(&e.onlyPoint, !comma)
	first(&e.onlyComma, !point)
	first(&e.either, point && comma && p != c)
	_, err := strconv.ParseFloat(text, 64)
	first(&e.special, err != nil)
	switch {
	case mark == "":
		first(&e.bare, p != 0 || c != 0)
	case e.mark == "":
		e.mark = mark
	case e.mark != mark:
		first(&e.other, true)
	}
}

// own returns the form of the column's numbers as far as they show it.
func (e *evidence) own() string {
	switch {
	case e.onlyPoint != "" && e.point >= e.comma:
		return decimalPoint
	case e.onlyComma != "":
		return decimalComma
	}
	return decimalAuto
}

// isNumber reports whether almost all texts are numbers in one form or the other.
func (e *evidence) isNumber() bool {
	return e.numbers > 0 && float64(e.numbers) >= mostlyNumbers*float64(e.texts)
}

// agreed returns the common form of all columns of numbers that show a form, if they agree.
func agreed(all []clues) string {
	decimal := decimalAuto
	for i := range all {
		own := all[i].own()
		switch {
		case !all[i].isNumber() || own == decimalAuto:
		case decimal != decimalAuto && own != decimal:
			return decimalAuto
		default:
			decimal = own
		}
	}
	return decimal
}

// settle sets the form of a column's numbers: the form that they show unless fixed is true, else the usual one. It
// returns an error if two possibilities remain.
func (e *evidence) settle(c *Column, usual string, fixed bool) error {
	if c.Decimal = e.own(); fixed || c.Decimal == decimalAuto {
		c.Decimal = usual
	}
	if c.Mark = e.mark; c.Unit == "" {
		c.Unit = e.mark
	}
	switch {
	case e.other != "":
		return fmt.Errorf("found %.40q beside numbers in %s, want one unit", e.other, e.mark)
	case e.mark == percent && e.bare != "":
		return fmt.Errorf("found %.40q beside percentages, want a %% in each or in none", e.bare)
	case !fixed && float64(max(e.point, e.comma)) < mostlyNumbers*float64(e.texts):
		return fmt.Errorf("found %.40q and %.40q, want a point before each fraction, or a comma", e.onlyPoint,
			e.onlyComma)
	case e.either != "" && c.Decimal == decimalAuto:
		return doubt(e.either)
	}
	c.Example = e.special
	if _, err := strconv.ParseFloat(e.either, 64); e.either != "" && (err != nil || c.Decimal == decimalComma) {
		c.Example = e.either
	}
	return nil
}

// doubt returns the error for a number that can be read in two ways.
func doubt(text string) error {
	digits, _ := unmarked(text)
	p, _ := parseNumber(digits, false)
	c, _ := parseNumber(digits, true)
	return fmt.Errorf("found %.40q, which is %s with a decimal point (--decimal point) or %s with a decimal comma "+
		"(--decimal comma), and nothing that tells which", text, categoryText(p), categoryText(c))
}

// Reading describes how the texts of a column are read, with an example. It returns "" if that is obvious.
func (c *Column) Reading() string {
	switch {
	case c.Example == "":
		return ""
	case c.Layout != "":
		return fmt.Sprintf("%q is %s", c.Example, c.day(c.Example))
	}
	digits, mark := unmarked(c.Example)
	x, _ := parseNumber(digits, c.Decimal == decimalComma)
	text := fmt.Sprintf("%q is %s", c.Example, categoryText(x))
	if mark != "" {
		text += " " + mark
	}
	return text
}

// point returns the decimal sign, 0 if it is undecided.
func (c *Column) point() byte {
	switch c.Decimal {
	case decimalPoint:
		return '.'
	case decimalComma:
		return ','
	}
	return 0
}

// number parses a number. If the form of the column is undecided, the first number with a fraction decides it.
func (c *Column) number(text string) (float64, error) {
	if c.point() == 0 {
		var e evidence
		e.add(text)
		if c.Decimal = e.own(); c.Decimal == decimalAuto && e.either != "" {
			return math.NaN(), doubt(text)
		}
	}
	digits, mark := unmarked(text)
	x, ok := parseNumber(digits, c.Decimal == decimalComma)
	if _, other := parseNumber(digits, c.Decimal != decimalComma); !ok && other {
		sign := map[bool]string{true: "comma", false: "point"}[c.Decimal == decimalComma]
		return math.NaN(), fmt.Errorf("found %.40q, want a number with a %s before its fraction, as others (--decimal)",
			text, sign)
	}
	switch {
	case !ok:
		return math.NaN(), fmt.Errorf("found %.40q, want a number", text)
	case mark != "" && mark != c.Mark && c.Mark == "":
		return math.NaN(), fmt.Errorf("found %.40q, want a number without %s, as others", text, mark)
	case mark != "" && mark != c.Mark || mark == "" && c.Mark == percent && x != 0:
		return math.NaN(), fmt.Errorf("found %.40q, want a number in %s, as others", text, c.Mark)
	}
	return x, nil
}
