// Package constrain restricts what a model writes to a language: JSON of a schema, the matches of a regular expression,
// or one text of a list. Before each token it reports which tokens may follow.
//
// A Grammar is a pushdown automaton over bytes. It knows of no tokens. A Constraint is a grammar beside the vocabulary
// of a tokenizer: a token may follow if the automaton takes all its bytes, so a token may end one part of a value and
// start the next, or end inside a character. Every state from which a text cannot be ended is left out, so that a text
// on the way can always be ended. Which tokens may follow is computed when a state is first met, by one walk through a
// trie of the vocabulary, and kept.
//
// The same text allows the same tokens, whatever was written before or beside it. So a constraint changes nothing about
// what a seed draws alone or in a batch.
package constrain

import (
	"fmt"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// Grammar is a language. It may be used by any number of goroutines.
type Grammar struct {
	states []state
	start  int32
	unique bool // there are lists whose elements must differ
}

// The bounds of a grammar. One that would pass them is refused.
const (
	maxSource = 256 << 10 // bytes of a schema or of a list of choices
	maxNest   = 64        // of JSON in a schema
	maxStates = 1 << 16
	maxRules  = 1 << 13
	maxDepth  = 96 // of calls while a text is written: of objects and lists in each other
)

// Error says what is wrong with a schema, a regular expression or a list of choices.
type Error struct {
	Path string // of the keyword in a schema, such as #/properties/a/minItems; "" elsewhere
	Text string
}

// Error says where, what was found, and what was wanted.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Text
	}
	return e.Path + ": " + e.Text
}

// fail ends the making of a grammar with an *Error.
func fail(path, format string, args ...any) {
	fault.Raise(&Error{Path: path, Text: fmt.Sprintf(format, args...)})
}

// build calls f, which writes states up to the end of the text and returns the first.
func build(f func(b *builder) int32) (*Grammar, error) {
	g := &Grammar{}
	return g, fault.Catch(func() {
		b := newBuilder()
		g.start = f(b)
		g.states = b.states
		if g.needs(nil)[g.start] == never {
			fail("", "found a language without any text, want one that can be written")
		}
		g.unique = len(b.differ) > 0
		for _, d := range b.differ {
			d.enough(g)
		}
	})
}

// Regexp is the texts that a regular expression of Go's syntax (RE2) matches as a whole.
func Regexp(expression string) (*Grammar, error) { return Compile(Matching(expression)) }

// Choices is some texts.
func Choices(texts []string) (*Grammar, error) { return Compile(OneOf(texts)) }

// JSON is the JSON objects.
func JSON() *Grammar {
	g, err := Schema([]byte(`{"type":"object"}`))
	if err != nil {
		panic(err) // not of this schema
	}
	return g
}

// Schema is the JSON that a JSON schema describes, of draft 2020-12, or a part of that: docs/server.md says which.
// A keyword that is not supported is an error that names it and its place.
func Schema(data []byte) (*Grammar, error) {
	return build(func(b *builder) int32 {
		u := newUnits(b, parseSchema("", data))
		start := u.value(u.root, final)
		u.finish()
		return b.space(start)
	})
}
