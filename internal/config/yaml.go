package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFileSize bounds a configuration file. The YAML parser takes time quadratic in the depth of nested brackets: 16 s
// for a file of this size with nothing else.
const maxFileSize = 64 << 10

func tooLarge(name string, size int64) string {
	return fmt.Sprintf("%s: found %d bytes, want a YAML file of at most %d", name, size, maxFileSize)
}

// loadYAML applies a YAML document. name is the file's name in messages.
func (l *loader) loadYAML(name string, data []byte) {
	if len(data) > maxFileSize {
		l.problems = append(l.problems, tooLarge(name, int64(len(data))))
		return
	}
	if !utf8.Valid(data) {
		l.problems.Addf(name, "found bytes that are not UTF-8, want a YAML file")
		return
	}
	// Duplicate keys are found below, by their full path, rather than by the parser, which would stop at the first.
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		l.problems.Addf(name+position(err), "%s", message(err))
		return
	}
	y := yamlLayer{loader: l, name: name, first: map[string]string{}}
	for i, doc := range file.Docs {
		switch {
		case doc.Body == nil: // empty, or only comments
		case i > 0:
			y.problem(doc.Body, "", "found a second YAML document, want one")
		default:
			y.mapping("", doc.Body)
		}
	}
}

// position returns ":line:column" of a syntax error if it has a position.
func position(err error) string {
	var e yaml.Error
	if errors.As(err, &e) && e.GetToken() != nil {
		return at(e.GetToken().Position.Line, e.GetToken().Position.Column)
	}
	return ""
}

func message(err error) string {
	var e yaml.Error
	if errors.As(err, &e) {
		return e.GetMessage()
	}
	return err.Error()
}

func at(line, column int) string { return ":" + strconv.Itoa(line) + ":" + strconv.Itoa(column) }

// A yamlLayer walks the parsed file.
type yamlLayer struct {
	*loader
	name  string
	first map[string]string // where each key was given first
}

func (y *yamlLayer) where(n ast.Node) string {
	p := n.GetToken().Position
	return at(p.Line, p.Column)
}

// problem reports something about the value n of key, which is "" at the top.
func (y *yamlLayer) problem(n ast.Node, key, format string, args ...any) {
	y.problems.Addf(y.source(n, key), format, args...)
}

func (y *yamlLayer) source(n ast.Node, key string) string {
	if key == "" {
		return y.name + y.where(n)
	}
	return y.name + y.where(n) + ": " + key
}

// mapping applies a mapping of keys below the group prefix.
func (y *yamlLayer) mapping(prefix string, n ast.Node) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		y.problem(n, prefix, "found %s, want keys and values", describe(n))
		return
	}
	for _, pair := range m.Values {
		name, ok := pair.Key.(*ast.StringNode)
		if !ok {
			y.problem(pair.Key, prefix, "found the key %s, want a plain name", shorten(pair.Key.String()))
			continue
		}
		key := name.Value
		if prefix != "" {
			key = prefix + "." + name.Value
		}
		y.pair(key, name, pair.Value)
	}
}

// pair applies one key, whose full path is key, and its value.
func (y *yamlLayer) pair(key string, name, value ast.Node) {
	if y.schema.isHead[key] {
		if value.Type() != ast.NullType { // "model:" with everything below it commented out is not a mistake
			y.mapping(key, value)
		}
		return
	}
	f := y.schema.byKey[key]
	if f == nil {
		y.problem(name, key, "unknown key%s", didYouMean("", key, y.schema.keys()))
		return
	}
	if first, ok := y.first[key]; ok {
		y.problem(name, key, "found a second value, want one; the first is at %s", strings.TrimPrefix(first, ":"))
		return
	}
	y.first[key] = y.where(name)
	if seq, ok := value.(*ast.SequenceNode); ok && kindOf(f.value.Type()) == list {
		y.sequence(f, seq)
		return
	}
	if text, ok := scalar(value); ok {
		y.set(f, y.source(value, key), text)
		return
	}
	y.problem(value, key, "found %s, want %s", describe(value), f.want())
}

func (y *yamlLayer) sequence(f *field, seq *ast.SequenceNode) {
	items := make([]string, len(seq.Values))
	for i, v := range seq.Values {
		text, ok := scalar(v)
		if !ok {
			y.problem(v, f.key, "element %d: found %s, want %s", i+1, describe(v), f.want())
			return
		}
		items[i] = text
	}
	if err := f.setList(items); err != nil {
		y.problem(seq, f.key, "%v", err)
	}
}

// scalar returns the text of a scalar other than null, without quotes.
func scalar(n ast.Node) (text string, ok bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// describe names a value that is not a scalar.
func describe(n ast.Node) string {
	switch n.Type() {
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	case ast.SequenceType:
		return "a sequence"
	case ast.NullType:
		return "nothing"
	case ast.AnchorType, ast.AliasType, ast.TagType, ast.MergeKeyType:
		return "a YAML anchor, alias or tag"
	}
	return shorten(n.String())
}
