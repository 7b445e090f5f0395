package figure

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"
)

// packed returns a figure for the page's script, in the form that assets/data.js reads. It is gzip of
//
//	4 bytes   the length n of the JSON, in little-endian order
//	n bytes   the figure as JSON, padded by spaces so that what follows begins at a multiple of 8
//	the rest  numbers in little-endian order
//
// in base64. In the JSON a long list of numbers is {"at": i, "count": n, "kind": "f4"}, for n numbers of four bytes (or
// eight, "f8") that start at byte i of the rest. The script unpacks a figure when it is first shown. This is faster
// than parsing a megabyte of digits.
func packed(f *Figure) (string, error) {
	p := &packer{}
	text, err := json.Marshal(p.value(reflect.ValueOf(f)))
	if err != nil {
		return "", err
	}
	text = append(text, strings.Repeat(" ", (8-(4+len(text))%8)%8)...)
	var out bytes.Buffer
	b64 := base64.NewEncoder(base64.StdEncoding, &out)
	z := gzip.NewWriter(b64) // writing to memory cannot fail
	var length [4]byte
	binary.LittleEndian.PutUint32(length[:], uint32(len(text)))
	z.Write(length[:])
	z.Write(text)
	z.Write(p.rest)
	if err := z.Close(); err != nil {
		return "", err
	}
	if err := b64.Close(); err != nil {
		return "", err
	}
	return out.String(), nil
}

// shortFloats is the maximum length of a list of numbers that is written in the JSON.
const shortFloats = 16

// packer converts values for JSON, and moves long lists of numbers to the rest. Pages show fewer digits than files
// have: colors need four, and lines the precision of float32.
type packer struct {
	rest   []byte
	colors bool // numbers are used only for colors
}

// where is the position of numbers in the rest.
type where struct {
	At    int    `json:"at"`
	Count int    `json:"count"`
	Kind  string `json:"kind"`
}

// value returns v in the form that package json would write, with long Floats replaced.
func (p *packer) value(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case Floats:
		return p.numbers(x)
	case Map, Text:
		defer func(was bool) { p.colors = was }(p.colors)
		p.colors = true
	case Table:
		v = reflect.ValueOf(*x.shown())
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return p.value(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if strings.HasPrefix(options, "omit") && (v.Field(i).IsZero() || isEmptyList(v.Field(i))) {
				continue
			}
			out[name] = p.value(v.Field(i))
		}
		return out
	case reflect.String:
		if s := v.String(); !utf8.ValidString(s) { // a part of a character, as tokens of bytes may be
			return visible(s)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Float64 {
			return p.value(reflect.ValueOf(Floats(v.Interface().([]float64))))
		}
		out := make([]any, v.Len())
		for i := range out {
			out[i] = p.value(v.Index(i))
		}
		return out
	}
	return v.Interface()
}

// numbers returns rounded numbers or, if there are many, their position in the rest.
func (p *packer) numbers(f Floats) any {
	out := make(Floats, len(f))
	for i, x := range f {
		if out[i] = x; p.colors {
			out[i] = round4(x)
		}
	}
	if len(f) <= shortFloats {
		return out
	}
	return p.floats(out)
}

func isEmptyList(v reflect.Value) bool { return v.Kind() == reflect.Slice && v.Len() == 0 }

// floats adds numbers to the rest. If float32 would make a number zero or infinite, all are written with eight bytes.
func (p *packer) floats(f Floats) where {
	w := where{At: len(p.rest), Count: len(f), Kind: "f4"}
	for _, x := range f {
		if size := math.Abs(x); size > math.MaxFloat32 && !math.IsInf(x, 0) || size > 0 && size < 1e-37 {
			w.Kind = "f8"
		}
	}
	for _, x := range f {
		if w.Kind == "f8" {
			p.rest = binary.LittleEndian.AppendUint64(p.rest, math.Float64bits(x))
		} else {
			p.rest = binary.LittleEndian.AppendUint32(p.rest, math.Float32bits(float32(x)))
		}
	}
	for len(p.rest)%8 != 0 {
		p.rest = append(p.rest, 0)
	}
	return w
}
