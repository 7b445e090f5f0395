package constrain

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// object is a JSON object that preserves the order of its keys.
type object struct {
	keys   []string
	values map[string]any
}

// parseJSON parses a JSON value: nil, bool, json.Number, string, []any or *object.
func parseJSON(name string, data []byte) any {
	if len(data) > maxSource {
		fail(name, "found a JSON schema of %d bytes, want at most %d", len(data), maxSource)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	err := fault.Catch(func() {
		v = decode(d, 0)
		if _, err := d.Token(); err == nil {
			fault.Raisef("found more text after the value")
		} else if !errors.Is(err, io.EOF) {
			fault.Raise(err)
		}
	})
	if err != nil {
		fail(name, "found a JSON schema that cannot be read: %v", err)
	}
	return v
}

func decode(d *json.Decoder, depth int) any {
	if depth > maxNest {
		fault.Raisef("it nests deeper than %d", maxNest)
	}
	switch t := fault.Must(d.Token()); t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			list = append(list, decode(d, depth+1))
		}
		fault.Must(d.Token())
		return list
	case json.Delim('{'):
		o := &object{values: map[string]any{}}
		for d.More() {
			name := fault.Must(d.Token()).(string) // the decoder permits no other type
			if _, twice := o.values[name]; !twice {
				o.keys = append(o.keys, name)
			}
			o.values[name] = decode(d, depth+1)
		}
		fault.Must(d.Token())
		return o
	default:
		return t
	}
}

// types is a set of JSON types.
type types uint8

const (
	typeNull types = 1 << iota
	typeBoolean
	typeInteger
	typeNumber
	typeString
	typeArray
	typeObject
	anyType = 1<<iota - 1
)

var typeNames = map[string]types{
	"null": typeNull, "boolean": typeBoolean, "integer": typeInteger, "number": typeNumber | typeInteger,
	"string": typeString, "array": typeArray, "object": typeObject,
}

// node is a schema or a part of one. It is one of: a schema without valid values (never), a conjunction of nodes (all),
// a choice of nodes (choice), a reference to another node (ref), or a set of keywords.
type node struct {
	id     int
	path   string
	never  bool
	all    []*node
	choice []*node
	ref    string

	types      types // anyType if there is no keyword type
	hints      types // types to which the keywords apply
	values     []any // values of enum and const
	oneOf      bool  // enum or const is present
	properties []property
	required   []string
	additional *node   // nil if absent
	byPattern  []keyed // from patternProperties
	names      []*node // from propertyNames
	unique     string  // the path of a uniqueItems that is true, or ""
	prefix     []*node
	items      *node
	bounds     map[string]bound // of numbers of items, lengths and numbers
	patterns   []*pattern       // of pattern and format
	rules      *rules           // from x-gbnf or x-lark, nil for none
}

type property struct {
	name string
	node *node
}

// keyed is the schema of the properties whose names a pattern matches.
type keyed struct {
	pattern *pattern
	node    *node
}

// bound is the value of a keyword like minItems.
type bound struct {
	path  string
	value json.Number
}

// schema is a whole schema.
type schema struct {
	name  string // prefix of all paths
	root  *node
	byRef map[string]*node // by JSON pointer, for example #/$defs/name
	nodes int
}

func parseSchema(name string, data []byte) *schema {
	s := &schema{name: name, byRef: map[string]*node{}}
	s.root = s.parse(name+"#", parseJSON(name, data))
	return s
}

// annotations lists the keywords that do not affect which values are valid.
var annotations = []string{
	"$schema", "$id", "$comment", "$anchor", "$defs", "definitions", "title", "description", "default", "examples",
	"deprecated", "readOnly", "writeOnly", "contentMediaType", "contentEncoding", "strict", "name", "nullable",
	"example", "discriminator", "contentSchema",
}

// parse parses the schema at a path.
func (s *schema) parse(path string, v any) *node {
	n := s.node(path)
	s.byRef[path] = n
	switch v := v.(type) {
	case bool:
		n.never = !v
	case *object:
		s.keywords(n, v)
	default:
		fail(path, "found %s, want a schema: an object, true or false", show(v))
	}
	return n
}

func (s *schema) node(path string) *node {
	const mostNodes, mostPath = 1 << 14, 1 << 11
	if s.nodes++; s.nodes > mostNodes || len(path) > mostPath {
		fail(path[:min(len(path), 80)],
			"found more than %d schemas, or a path longer than %d bytes, want a smaller schema", mostNodes, mostPath)
	}
	return &node{id: s.nodes, path: path, types: anyType, bounds: map[string]bound{}}
}

// keywords parses the keywords of a schema. Keywords that refer to or combine other schemas become separate nodes.
func (s *schema) keywords(n *node, o *object) {
	beside := func(path string) *node {
		if n.all == nil {
			own := s.node(n.path)
			n.all = []*node{own}
		}
		other := s.node(path)
		n.all = append(n.all, other)
		return other
	}
	for _, key := range o.keys {
		at, v := n.path+"/"+key, o.values[key]
		switch key {
		case "$ref":
			beside(at).ref = s.reference(at, v)
		case "anyOf", "oneOf":
			beside(at).choice = s.list(at, v)
		case "allOf":
			beside(at).all = s.list(at, v)
		case "$defs", "definitions":
			defs := s.object(at, v)
			for _, name := range defs.keys {
				s.parse(at+"/"+pointer.Replace(name), defs.values[name])
			}
		}
	}
	own := n // gets the other keywords: n, or the first node of n.all
	if n.all != nil {
		own = n.all[0]
	}
	for _, key := range o.keys {
		s.keyword(own, o, key, n.path+"/"+key)
	}
}

// pointer escapes names for JSON pointers.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// reference returns the path to which a $ref points.
func (s *schema) reference(at string, v any) string {
	text, ok := v.(string)
	if !ok || !strings.HasPrefix(text, "#") {
		fail(at, "found %s, want a place in the schema, such as #/$defs/name", show(v))
	}
	plain, err := url.PathUnescape(text)
	if err != nil {
		fail(at, "found %s (%v), want a place in the schema, such as #/$defs/name", show(v), err)
	}
	return s.name + plain
}

// keyword parses a keyword about the value itself.
func (s *schema) keyword(n *node, o *object, key, at string) {
	v := o.values[key]
	hint := func(t types) { n.hints |= t }
	switch key {
	case "$ref", "anyOf", "oneOf", "allOf":
	case "type":
		n.types = readTypes(at, v)
	case "enum":
		n.values, n.oneOf = s.values(at, v, 1), true
	case "const":
		n.values, n.oneOf = []any{v}, true
	case "properties":
		hint(typeObject)
		o := s.object(at, v)
		for _, name := range o.keys {
			n.properties = append(n.properties, property{name, s.parse(at+"/"+pointer.Replace(name), o.values[name])})
		}
	case "required":
		hint(typeObject)
		for _, name := range s.values(at, v, 0) {
			const most = 1 << 10
			text, ok := name.(string)
			if !ok || len(text) > most {
				fail(at, "found %s, want a list of names of at most %d bytes", show(name), most)
			}
			n.required = append(n.required, text)
		}
	case "additionalProperties":
		hint(typeObject)
		n.additional = s.parse(at, v)
	case "prefixItems":
		hint(typeArray)
		n.prefix = s.list(at, v)
	case "items":
		hint(typeArray)
		if _, ok := v.([]any); ok { // draft 7's form of prefixItems
			n.prefix = s.list(at, v)
			break
		}
		n.items = s.parse(at, v)
	case "additionalItems":
		if _, ok := o.values["items"].([]any); ok { // it has no effect unless items is a list
			n.items = s.parse(at, v)
		}
	case "uniqueItems":
		hint(typeArray)
		if yes, ok := v.(bool); !ok {
			fail(at, "found %s, want true or false", show(v))
		} else if yes {
			n.unique = at
		}
	case "not":
		if other, ok := v.(*object); v != true && (!ok || len(other.keys) > 0) {
			fail(at, "found %s, want {}: constrained sampling supports only what excludes every value", show(v))
		}
		n.never = true
	case "patternProperties":
		hint(typeObject)
		of := s.object(at, v)
		for _, name := range of.keys {
			under := at + "/" + pointer.Replace(name)
			n.byPattern = append(n.byPattern, keyed{newPattern(under, name, false), s.parse(under, of.values[name])})
		}
	case "propertyNames":
		hint(typeObject)
		n.names = append(n.names, s.parse(at, v))
	case "minProperties", "maxProperties":
		hint(typeObject)
		n.bound(key, at, v)
	case "minItems", "maxItems":
		hint(typeArray)
		n.bound(key, at, v)
	case "minLength", "maxLength":
		hint(typeString)
		n.bound(key, at, v)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		hint(typeNumber | typeInteger)
		n.bound(key, at, v)
	case "pattern", "format":
		hint(typeString)
		n.matches(key, at, v, o.values["pattern"] == nil && o.values["allOf"] == nil)
	case "x-gbnf", "x-lark":
		hint(typeString)
		text, ok := v.(string)
		if !ok || n.rules != nil {
			fail(at, "found %s, want the rules of one grammar", show(v))
		}
		if key == "x-gbnf" {
			n.rules = newGBNF(at, text)
		} else {
			n.rules = newLark(at, text)
		}
	default:
		if !slices.Contains(annotations, key) && !strings.HasPrefix(key, "x-") && !emptyKeyword(key, v) {
			fail(at, "found the keyword %.40q, want one that constrained sampling supports: %s", key, supported)
		}
	}
}

// emptyKeyword reports whether an unsupported keyword has a value without effect, as some programs write it.
func emptyKeyword(key string, v any) bool {
	return key == "minContains" && v == json.Number("0")
}

// supported lists the supported keywords, for an error.
const supported = "type, enum, const, properties, required, additionalProperties, items, prefixItems, minItems, " +
	"maxItems, uniqueItems, patternProperties, propertyNames, minProperties, maxProperties, minLength, maxLength, " +
	"pattern, format, x-gbnf, x-lark, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, anyOf, " +
	"oneOf, allOf, $ref, $defs"

func (n *node) bound(key, at string, v any) {
	x, ok := v.(json.Number)
	if !ok {
		fail(at, "found %s, want a number", show(v))
	}
	n.bounds[key] = bound{at, x}
}

func (s *schema) list(at string, v any) (all []*node) {
	for i, item := range s.values(at, v, 1) {
		all = append(all, s.parse(at+"/"+strconv.Itoa(i), item))
	}
	return all
}

// values returns v as a list. It fails unless v is a list of at least the given length.
func (s *schema) values(at string, v any, least int) []any {
	list, ok := v.([]any)
	if !ok || len(list) < least {
		fail(at, "found %s, want a list with at least %d elements", show(v), least)
	}
	return list
}

func (s *schema) object(at string, v any) *object {
	o, ok := v.(*object)
	if !ok {
		fail(at, "found %s, want an object", show(v))
	}
	return o
}

// readTypes parses the value of the keyword type.
func readTypes(at string, v any) (all types) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, one := range list {
		name, _ := one.(string)
		t, ok := typeNames[name]
		if !ok {
			fail(at, "found %s, want one of %s", show(one), strings.Join(slices.Sorted(maps.Keys(typeNames)), ", "))
		}
		all |= t
	}
	return all
}

// show formats a value for an error.
func show(v any) string {
	switch v := v.(type) {
	case []any:
		return "a list of " + strconv.Itoa(len(v))
	case *object:
		return "an object"
	case string:
		return strconv.Quote(v[:min(len(v), 40)])
	}
	return scalar(v)
}
