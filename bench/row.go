package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Row is a line of results: fields in the order in which they are printed.
type Row []Field

// Field is a name with its value: a string, a float64, or nil if it was not measured. Rows of peers may have other JSON
// values, which are kept unchanged.
type Field struct {
	Name  string
	Value any
}

// Get returns the value of a field.
func (r Row) Get(name string) (any, bool) {
	if i := slices.IndexFunc(r, func(f Field) bool { return f.Name == name }); i >= 0 {
		return r[i].Value, true
	}
	return nil, false
}

// Number returns the value of a field that is a number.
func (r Row) Number(name string) (float64, bool) {
	v, _ := r.Get(name)
	x, ok := v.(float64)
	return x, ok
}

// MarshalJSON writes one object on one line, with the fields in order.
func (r Row) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, f := range r {
		b.WriteByte("{,"[min(i, 1)])
		for j, v := range [2]any{f.Name, f.Value} {
			text, err := json.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			b.WriteString([2]string{"", ":"}[j])
			b.Write(text)
		}
	}
	if len(r) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// ParseRow reads one JSON object.
func ParseRow(line []byte) (Row, error) {
	fail := func() (Row, error) { return nil, fmt.Errorf("found %.60q, want a JSON object", line) }
	d := json.NewDecoder(bytes.NewReader(line))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return fail()
	}
	row := Row{}
	for d.More() {
		var f Field
		name, err := d.Token()
		if err != nil {
			return fail()
		}
		f.Name, _ = name.(string) // the decoder accepts only strings here
		if d.Decode(&f.Value) != nil {
			return fail()
		}
		row = append(row, f)
	}
	if _, err := d.Token(); err != nil {
		return fail()
	}
	if _, err := d.Token(); err != io.EOF {
		return fail()
	}
	return row, nil
}

// String returns the row as words: "train config a model H3".
func (r Row) String() string {
	var words []string
	for _, f := range r {
		if f.Name != "bench" {
			words = append(words, f.Name)
		}
		words = append(words, Text(f.Value))
	}
	return strings.Join(words, " ")
}

// Text formats a value: numbers without an exponent, and "-" if it was not measured.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// mebibytes converts a number of bytes to MiB, rounded.
func mebibytes[T int | int64 | uint64](bytes T) float64 { return rounded(float64(bytes) / (1 << 20)) }

// rounded rounds a measurement to four digits.
func rounded(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil { // rounded up beyond the largest number
		return x
	}
	return y
}
