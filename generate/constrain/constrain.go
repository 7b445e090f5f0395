// Package constrain restricts the text that a model writes to a language: JSON of a schema, matches of a regular
// expression, texts of a grammar, or one text of a list. Before each token it determines which tokens may follow.
//
// A Grammar is a pushdown automaton over bytes. It does not depend on tokens. A Constraint combines a grammar with the
// vocabulary of a tokenizer. A token may follow if the automaton accepts all its bytes, so a token may end one part of
// a value and start the next, or end inside a character. States from which no text can be completed are left out, so
// that an unfinished text can always be completed. The set of tokens that may follow is computed by one walk through a
// trie of the vocabulary when a state is first reached, and cached.
//
// The same text always permits the same tokens, whatever other texts were written before or at the same time. So a
// constrained text with the same seed is the same alone and in a batch.
package constrain

import (
	"fmt"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// Grammar is a language. It may be used by any number of goroutines.
type Grammar struct {
	states []state
	start  int32
	unique bool // the grammar has lists whose elements must differ
}

// The limits of a grammar. Grammars that exceed them are refused.
const (
	maxSource = 256 << 10 // bytes of a schema or of a list of choices
	maxNest   = 64        // of JSON in a schema
	maxStates = 1 << 16
	maxRules  = 1 << 13
	maxDepth  = 96 // of nested calls while a text is written, as of nested objects and lists
)

// Error reports what is wrong with a schema, a regular expression, a grammar or a list of choices.
type Error struct {
	Path string // of the keyword in a schema, for example #/properties/a/minItems; otherwise ""
	Text string
}

// Error returns the place, what was found, and what was wanted.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Text
	}
	return e.Path + ": " + e.Text
}

// fail ends the construction of a grammar with an *Error.
func fail(path, format string, args ...any) {
	fault.Raise(&Error{Path: path, Text: fmt.Sprintf(format, args...)})
}

// build returns the grammar of the states that f writes. f returns the first state.
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

// Regexp returns the grammar of the texts that a regular expression in Go's syntax (RE2) matches as a whole.
func Regexp(expression string) (*Grammar, error) { return Compile(Matching(expression)) }

// Choices returns the grammar of the given texts.
func Choices(texts []string) (*Grammar, error) { return Compile(OneOf(texts)) }

// JSON returns the grammar of all JSON objects.
func JSON() *Grammar {
	g, err := Schema([]byte(`{"type":"object"}`))
	if err != nil {
		panic(err) // cannot happen for this schema
	}
	return g
}

// Schema returns the grammar of the JSON values that a JSON schema of draft 2020-12 describes, or of a part of these
// values: docs/server.md lists the differences. An unsupported keyword gives an error that names the keyword and its
// place.
func Schema(data []byte) (*Grammar, error) {
	return build(func(b *builder) int32 {
		u := newUnits(b, parseSchema("", data))
		start := u.value(u.root, final)
		u.finish()
		return b.space(start)
	})
}
