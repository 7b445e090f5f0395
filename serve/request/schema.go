package request

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Form declares what an endpoint reads and returns. Its handler can read nothing else, and /openapi.json is generated
// from forms.
type Form struct {
	Body  any    // a struct for the JSON object in the body; nil for none
	Kind  string // content type of a body that is not JSON
	Query string // names of query parameters, separated by spaces
	Reply any    // a struct, or nil
}

// Schema is a JSON schema in the dialect of OpenAPI 3.1: 2020-12.
type Schema map[string]any

// hasSchema is a type that describes its own JSON.
type hasSchema interface{ Schema() Schema }

// SchemaOf returns the schema of the values of a type. Fields of a request may be null, which leaves them unchanged.
func SchemaOf(t reflect.Type) Schema { return schemaOf(t, nil) }

// schemaOf is SchemaOf of a type inside the structs in. A recursive struct becomes any object.
func schemaOf(t reflect.Type, in []reflect.Type) Schema {
	if t.Kind() == reflect.Pointer {
		return orNull(schemaOf(t.Elem(), in))
	}
	if of, ok := reflect.New(t).Interface().(hasSchema); ok {
		return of.Schema()
	}
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return Schema{}
	case reflect.TypeFor[time.Time]():
		return Schema{"type": "string", "format": "date-time"}
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) && t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("request: %v reads JSON by itself, want a method Schema", t))
	}
	switch t.Kind() {
	case reflect.String:
		return TextSchema()
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}
	case reflect.Slice:
		return Schema{"type": "array", "items": schemaOf(t.Elem(), in)}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": schemaOf(t.Elem(), in)}
	case reflect.Struct:
		if slices.Contains(in, t) {
			return Schema{"type": "object"}
		}
		fields := Schema{}
		addFields(fields, t, append(slices.Clone(in), t))
		if of, ok := reflect.New(t).Interface().(hasForeign); ok {
			for _, r := range of.Foreign().Refused { // including fields shared with other endpoints
				delete(fields, r.Name())
			}
		}
		return Schema{"type": "object", "properties": fields}
	case reflect.Interface:
		return Schema{}
	}
	return Schema{"type": "integer"}
}

// addFields adds the schemas of the fields of a struct, including those of embedded structs.
func addFields(to Schema, t reflect.Type, in []reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		of := f.Type
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch {
		case f.Anonymous && name == "":
			addFields(to, of, in)
		case name != "" && name != "-":
			to[name] = orNull(schemaOf(of, in))
		}
	}
}

// orNull returns a schema that also allows null.
func orNull(s Schema) Schema {
	if kind, ok := s["type"].(string); ok {
		s["type"] = []string{kind, "null"}
	} else if any, ok := s["anyOf"].([]Schema); ok {
		s["anyOf"] = append(slices.Clone(any), Schema{"type": "null"})
	}
	return s
}

// AnyOf returns the schema of a value that matches any of the given schemas.
func AnyOf(all ...Schema) Schema { return Schema{"anyOf": all} }

// TextSchema returns the schema of a text.
func TextSchema() Schema { return Schema{"type": "string"} }

// ListSchema returns the schema of a list.
func ListSchema(of Schema) Schema { return Schema{"type": "array", "items": of} }

// Schema returns the schema of a text or a list of texts.
func (*Strings) Schema() Schema { return AnyOf(TextSchema(), ListSchema(TextSchema())) }

// Schema returns the schema of texts or lists of ids.
func (*Prompts) Schema() Schema {
	ids := ListSchema(Schema{"type": "integer"})
	return AnyOf(TextSchema(), ListSchema(TextSchema()), ids, ListSchema(ids))
}
