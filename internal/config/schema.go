package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A schema is a struct as a list of leaves, in the order of their declaration.
type schema struct {
	fields []*field
	groups []group
	byKey  map[string]*field
	isHead map[string]bool // keys of the groups
}

// A group is a struct within the struct.
type group struct{ key, help string }

// A field is one leaf: its value and the bounds on it.
type field struct {
	key   string // path, for example model.d_model
	help  string
	value reflect.Value
	old   bool // a key of earlier versions: read from every layer, written and listed only if it has a value

	enum             []string // allowed texts; nil for any
	min, max         float64  // inclusive; infinite for none
	minText, maxText string   // as written in the tags
}

// newSchema describes the struct that cfg is or points to. Values can be set only through a pointer.
func newSchema(cfg any) *schema {
	v := reflect.Indirect(reflect.ValueOf(cfg))
	if v.Kind() != reflect.Struct {
		panic(fmt.Sprintf("config: found %T, want a struct or a pointer to one", cfg))
	}
	s := &schema{byKey: map[string]*field{}, isHead: map[string]bool{}}
	s.add("", v)
	variables := map[string]string{}
	for _, f := range s.fields {
		if other, ok := variables[f.env()]; ok {
			panic(fmt.Sprintf("config: %s and %s have the same variable %s", other, f.key, f.env()))
		}
		variables[f.env()] = f.key
		s.byKey[f.key] = f
	}
	return s
}

// add appends the leaves of the struct v, whose key is prefix.
func (s *schema) add(prefix string, v reflect.Value) {
	for i := range v.NumField() {
		t := v.Type().Field(i)
		name, _, _ := strings.Cut(t.Tag.Get("json"), ",")
		if (!t.IsExported() && !t.Anonymous) || name == "-" || t.Tag.Get("config") == "-" {
			continue
		}
		isStruct := t.Type.Kind() == reflect.Struct
		if t.Anonymous && isStruct && name == "" { // as in encoding/json
			s.add(prefix, v.Field(i))
			continue
		}
		if name == "" {
			name = t.Name
		}
		key := name
		if prefix != "" {
			key = prefix + "." + name
		}
		help := t.Tag.Get("help")
		if isStruct {
			s.groups = append(s.groups, group{key, help})
			s.isHead[key] = true
			s.add(key, v.Field(i))
			continue
		}
		s.fields = append(s.fields, newField(key, help, v.Field(i), t.Tag))
	}
}

func newField(key, help string, v reflect.Value, tag reflect.StructTag) *field {
	f := &field{
		key: key, help: help, value: v, old: tag.Get("config") == "old", min: math.Inf(-1), max: math.Inf(1),
	}
	if kindOf(v.Type()) == unsupported {
		panic(fmt.Sprintf("config: %s: type %v cannot be configured", key, v.Type()))
	}
	if enum := tag.Get("enum"); enum != "" {
		f.enum = strings.Split(enum, ",")
	}
	if f.element() == unsigned {
		f.min, f.minText = 0, "0"
	}
	if text, ok := tag.Lookup("min"); ok {
		f.min, f.minText = f.bound(text), text
	}
	if text, ok := tag.Lookup("max"); ok {
		f.max, f.maxText = f.bound(text), text
	}
	return f
}

// bound reads a min or max tag.
func (f *field) bound(text string) float64 {
	if f.element() == duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			panic(fmt.Sprintf("config: %s: bound %q: %v", f.key, text, err))
		}
		return float64(d)
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || f.element() == str || f.element() == boolean {
		panic(fmt.Sprintf("config: %s: bound %q for type %v", f.key, text, f.value.Type()))
	}
	return x
}

// env returns the part of the variable's name after the prefix: MODEL_D_MODEL for model.d_model.
func (f *field) env() string {
	return Variable("", f.key)
}

// keys returns the keys of all leaves and groups.
func (s *schema) keys() []string {
	keys := make([]string, 0, len(s.fields)+len(s.groups))
	for _, f := range s.fields {
		keys = append(keys, f.key)
	}
	for _, g := range s.groups {
		keys = append(keys, g.key)
	}
	return keys
}

// kind classifies types as far as this package distinguishes them.
type kind int

const (
	unsupported kind = iota
	boolean
	signed
	unsigned
	float
	duration
	str
	list
)

func kindOf(t reflect.Type) kind {
	if t == reflect.TypeFor[time.Duration]() {
		return duration
	}
	switch t.Kind() {
	case reflect.Bool:
		return boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return signed
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return unsigned
	case reflect.Float32, reflect.Float64:
		return float
	case reflect.String:
		return str
	case reflect.Slice:
		if slices.Contains([]kind{signed, unsigned, str}, kindOf(t.Elem())) {
			return list
		}
	}
	return unsupported
}

// element returns the kind of the field's value, or of the elements if it is a list.
func (f *field) element() kind {
	if k := kindOf(f.value.Type()); k != list {
		return k
	}
	return kindOf(f.value.Type().Elem())
}
