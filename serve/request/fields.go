package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
)

// ReadObject reads a JSON object.
func ReadObject(body []byte, into any) error {
	if n := items(body); n > maxFields {
		return &Error{Status: http.StatusBadRequest,
			Message: fmt.Sprintf("the body of the request: found %d fields, want at most %d", n, maxFields)}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return &Error{Status: http.StatusBadRequest, Message: "the body of the request: " + DescribeJSON(err)}
	}
	// A request without a model name gets the first model. An empty name is a mistake, unless the older field has a
	// name.
	if name := string(fields["name"]); string(fields["model"]) == `""` && (name == "" || name == `""`) {
		return Invalid("model", `found "", want the name of a model, as GET /v1/models lists them, or no such field`)
	}
	if err := checkForeign("", fields, into); err != nil {
		return err
	}
	return readFields(fields, reflect.ValueOf(into).Elem())
}

// readFields sets the fields of a struct, including those of embedded structs.
func readFields(fields map[string]json.RawMessage, v reflect.Value) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			if err := readFields(fields, v.Field(i)); err != nil {
				return err
			}
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		raw, ok := fields[name]
		if !ok || name == "" || string(raw) == "null" {
			continue
		}
		if err := checkItems(name, raw, v.Field(i).Type()); err != nil {
			return err
		}
		if err := json.Unmarshal(raw, v.Field(i).Addr().Interface()); err != nil {
			return Invalid(name, "%s", DescribeJSON(err))
		}
		var inner map[string]json.RawMessage
		if of, ok := v.Field(i).Addr().Interface().(hasForeign); ok && json.Unmarshal(raw, &inner) == nil {
			if err := checkForeign(name, inner, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// DescribeJSON describes an error of encoding/json in terms of JSON.
func DescribeJSON(err error) string {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err.Error()
	}
	want := kind.Type.String()
	for kind.Type.Kind() == reflect.Pointer {
		kind.Type = kind.Type.Elem()
	}
	switch kind.Type.Kind() {
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		want = "an integer"
	case reflect.Float32, reflect.Float64:
		want = "a number"
	case reflect.Slice:
		want = "a list"
	case reflect.Map, reflect.Struct:
		want = "an object"
	}
	text := "found a JSON " + Shorten([]byte(kind.Value)) + ", want " + want
	if kind.Field != "" {
		return kind.Field + ": " + text
	}
	return text
}

// Shorten truncates a value for an error.
func Shorten(data []byte) string {
	const most = 40
	if len(data) > most {
		return string(data[:most]) + "…"
	}
	return string(data)
}

// Checks holds the first error among the values of fields.
type Checks struct{ Err error }

// That records the error of a field unless ok.
func (c *Checks) That(ok bool, param, format string, args ...any) {
	if !ok && c.Err == nil {
		c.Err = Invalid(param, format, args...)
	}
}

// Range records an error unless x is an integer from least to most.
func (c *Checks) Range(x, least, most int, param string) {
	c.That(x >= least && x <= most, param, "found %d, want an integer from %d to %d", x, least, most)
}

// Or returns the value of a field, or other if the request lacks the field.
func Or[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

// OrNull returns a text, or nil (null in a response) if it is empty.
func OrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// maxItems is the maximum length of a list or object in a request, except for lists of numbers. In memory, an empty
// item is many times larger than in JSON.
const maxItems = 1 << 18

// maxFields is the maximum number of fields of a request.
const maxFields = 1024

// checkItems returns an error if a field of a type has too many items.
func checkItems(name string, raw []byte, t reflect.Type) error {
	if t == reflect.TypeFor[Prompts]() { // it checks itself
		return nil
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() >= reflect.Int && t.Elem().Kind() <= reflect.Float64 {
		return nil
	}
	if n := items(raw); n > maxItems {
		return Invalid(name, "found a list of %d, want at most %d", n, maxItems)
	}
	if t != reflect.TypeFor[json.RawMessage]() && t != reflect.TypeFor[[]json.RawMessage]() { // read later, in pieces
		if n := itemsWithin(raw); n > maxItems {
			return Invalid(name, "found %d items in lists and objects within each other, want at most %d", n, maxItems)
		}
	}
	return nil
}

// items returns the number of items in a JSON list or object; an estimate if the JSON is invalid.
func items(raw []byte) int {
	n, depth, quoted := 1, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 1:
			n++
		}
	}
	return n
}

// itemsWithin returns the number of items in all lists and objects of JSON, except for numbers in lists.
func itemsWithin(raw []byte) int {
	n, quoted, last := 1, false, byte(0) // last is the previous byte that is not a space
	var inList []bool
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			inList = append(inList, c == '[')
			n++
		case (c == ']' || c == '}') && len(inList) > 0:
			inList = inList[:len(inList)-1]
		case c == ',' && (last < '0' || last > '9' || len(inList) > 0 && !inList[len(inList)-1]):
			n++
		}
		if c > ' ' {
			last = c
		}
	}
	return n
}

// firstOf returns the first byte of the first item of a list, 0 if there is none.
func firstOf(raw []byte) byte {
	if !bytes.HasPrefix(raw, []byte{'['}) {
		return 0
	}
	rest := bytes.TrimLeft(raw[1:], " \t\r\n")
	if len(rest) == 0 {
		return 0
	}
	return rest[0]
}
