package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// set parses text by the field's type and sets its value. The error names the text found and what was wanted.
func (f *field) set(text string) error {
	if kindOf(f.value.Type()) != list {
		return f.setOne(f.value, text)
	}
	items, err := splitList(text)
	if err != nil {
		return fmt.Errorf("found %s, %v", shorten(text), err)
	}
	return f.setList(items)
}

// setList sets a list from the texts of its elements. It does not change the old slice, which defaults may share.
func (f *field) setList(items []string) error {
	s := reflect.MakeSlice(f.value.Type(), len(items), len(items))
	for i, item := range items {
		if err := f.setOne(s.Index(i), item); err != nil {
			return fmt.Errorf("element %d: %v", i+1, err)
		}
	}
	f.value.Set(s)
	return nil
}

// setOne sets v, which is the field's value or an element of it.
func (f *field) setOne(v reflect.Value, text string) error {
	notOK := fmt.Errorf("found %s, want %s", shorten(text), f.want())
	switch f.element() {
	case boolean:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return notOK
		}
		v.SetBool(b)
	case str:
		if f.enum != nil && !slices.Contains(f.enum, text) {
			return fmt.Errorf("%v%s", notOK, didYouMean("", text, f.enum))
		}
		v.SetString(text)
	case duration:
		d, err := time.ParseDuration(text)
		if err != nil || !f.inRange(float64(d)) {
			return notOK
		}
		v.SetInt(int64(d))
	case float:
		x, err := strconv.ParseFloat(text, v.Type().Bits())
		if err != nil || math.IsInf(x, 0) || !f.inRange(x) { // no range contains NaN
			return notOK
		}
		v.SetFloat(x)
	case signed:
		n, err := parseInteger(text, strconv.ParseInt)
		if errors.Is(err, strconv.ErrRange) || v.OverflowInt(n) {
			return fmt.Errorf("%v that fits %d bits", notOK, v.Type().Bits())
		}
		if err != nil || !f.inRange(float64(n)) {
			return notOK
		}
		v.SetInt(n)
	case unsigned:
		n, err := parseInteger(text, strconv.ParseUint)
		if errors.Is(err, strconv.ErrRange) || v.OverflowUint(n) {
			return fmt.Errorf("%v that fits %d bits", notOK, v.Type().Bits())
		}
		if err != nil || !f.inRange(float64(n)) {
			return notOK
		}
		v.SetUint(n)
	}
	return nil
}

// parseInteger parses decimal digits, or a whole number with an exponent, for example 1e6, a common way to write
// numbers of tokens.
func parseInteger[T int64 | uint64](text string, parse func(string, int, int) (T, error)) (T, error) {
	n, err := parse(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) || !strings.ContainsAny(text, "eE") {
		return n, err
	}
	const exact = 1 << 53 // from here on a float64 may differ from the integer that was written
	x, err := strconv.ParseFloat(text, 64)
	if err == nil && (x != math.Trunc(x) || math.Abs(x) >= exact) {
		err = strconv.ErrSyntax
	}
	if err != nil {
		return 0, err
	}
	return parse(strconv.FormatFloat(x, 'f', 0, 64), 10, 64)
}

func (f *field) inRange(x float64) bool { return f.min <= x && x <= f.max }

// nouns describe the texts of each kind of value.
var nouns = map[kind]string{
	boolean: "true or false", signed: "an integer", unsigned: "an integer", float: "a number",
	duration: "a duration such as 90s or 1h30m", str: "text",
}

// want describes the texts that the field accepts, in words: "an integer from 1 to 9".
func (f *field) want() string {
	noun := nouns[f.element()]
	if f.enum != nil {
		noun = "one of " + f.choices()
	}
	return noun + f.limits()
}

// limits describes the field's bounds, or returns "" if there are none.
func (f *field) limits() string {
	switch {
	case f.minText != "" && f.maxText != "":
		return " from " + f.minText + " to " + f.maxText
	case f.minText != "":
		return " from " + f.minText + " up"
	case f.maxText != "":
		return " up to " + f.maxText
	}
	return ""
}

// text returns the value in the form that set reads.
func (f *field) text() string {
	if kindOf(f.value.Type()) == list {
		return joinList(f.items())
	}
	return f.textOf(f.value)
}

// items returns the texts of a list's elements.
func (f *field) items() []string {
	items := make([]string, f.value.Len())
	for i := range items {
		items[i] = f.textOf(f.value.Index(i))
	}
	return items
}

func (f *field) textOf(v reflect.Value) string {
	switch f.element() {
	case boolean:
		return strconv.FormatBool(v.Bool())
	case duration:
		return time.Duration(v.Int()).String()
	case signed:
		return strconv.FormatInt(v.Int(), 10)
	case unsigned:
		return strconv.FormatUint(v.Uint(), 10)
	case float:
		return strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits()) // the shortest that reads back exactly
	}
	return v.String()
}

// shorten quotes a text for a message and cuts a long one.
func shorten(text string) string {
	const most = 60
	if len(text) > most {
		return strconv.Quote(text[:most]) + "..."
	}
	return strconv.Quote(text)
}

// choices lists the texts that a field may have, except the empty one.
func (f *field) choices() string {
	return strings.Join(slices.DeleteFunc(slices.Clone(f.enum), func(text string) bool { return text == "" }), ", ")
}
