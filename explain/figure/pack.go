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

// packed is a figure for the page's script, as assets/data.js reads it: gzip of
//
//	4 bytes   the length n of the JSON, in little-endian order
//	n bytes   the figure as JSON, padded by spaces so that what follows begins at a multiple of 8
//	the rest  numbers in little-endian order
//
// in base64. In the JSON a long list of numbers is {"at": i, "count": n, "kind": "f4"} for n numbers of four bytes, or
// eight ("f8"), from byte i of the rest on. It is read when the figure is first seen, without the time that a megabyte
// of digits takes.
func packed(f *Figure) (string, error) {
	p := &packer{}
	text, err := json.Marshal(p.value(reflect.ValueOf(f)))
	if err != nil {
		return "", err
	}
	text = append(text, strings.Repeat(" ", (8-(4+len(text))%8)%8)...)
	var out bytes.Buffer
	b64 := base64.NewEncoder(base64.StdEncoding, &out)
	z := gzip.NewWriter(b64) // all into memory, which has no errors
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

// shortFloats is the length up to which numbers stand in the JSON.
const shortFloats = 16

// packer makes values for JSON, and keeps the long lists of numbers. Pages show fewer digits than files have: colors
// need four, and lines the precision of float32.
type packer struct {
	rest   []byte
	colors bool // the numbers become colors
}

// where says where numbers lie.
type where struct {
	At    int    `json:"at"`
	Count int    `json:"count"`
	Kind  string `json:"kind"`
}

// value is what package json writes of v, with long Floats replaced.
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
		if s := v.String(); !utf8.ValidString(s) { // a part of a letter, as tokens of bytes are
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

// numbers returns rounded numbers: themselves if they are few, else where they lie in the rest.
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

// floats adds numbers to the rest. Where float32 would make zero or infinity of one, all have eight bytes.
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
