package constrain

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// textsOf returns all texts of up to n of the letters.
func textsOf(letters []string, n int) []string {
	all := []string{""}
	for from := 0; n > 0; n-- {
		to := len(all)
		for _, text := range all[from:to] {
			for _, x := range letters {
				all = append(all, text+x)
			}
		}
		from = to
	}
	return all
}

// TestBoundaries checks that expressions with \b and \B accept the same short texts as Go's regexp, as raw text and as
// JSON, alone and together, and that the same holds with lookaheads and with patterns that must not match.
func TestBoundaries(t *testing.T) {
	texts := textsOf([]string{"a", "_", " ", "é", "\n"}, 4)
	for _, c := range []struct{ must, not []string }{
		{must: []string{`\ba`}}, {must: []string{`a\b`}}, {must: []string{`^\b.*\b$`}}, {must: []string{`\B`}},
		{must: []string{`^\B`}}, {must: []string{`(\ba|_\B)\b`}}, {must: []string{`a\b\b`}}, {must: []string{`\b\B`}},
		{must: []string{`^(\w+\b\s?)*$`}}, {must: []string{`\Ba\B`, `\b `}},
		{must: []string{`^.*$`}, not: []string{`\ba`}},
		{must: []string{`a`}, not: []string{`a\b`}}, {must: []string{`^(?s).*$`}, not: []string{`\Ba$`, `_\b`}},
		{must: []string{`^(?s).*$`}, not: []string{`a(\b|_)`}}, {not: []string{`\b$`}}, {not: []string{`a\B`, `^\b`}},
	} {
		for _, spelled := range []spelling{rawText, jsonText} {
			g, err := build(func(b *builder) int32 {
				of := func(sources []string) (all []*pattern) {
					for _, source := range sources {
						all = append(all, newPattern("", source, false))
					}
					return all
				}
				return b.patternBut(of(c.must), of(c.not), spelled, 0, unlimited, final)
			})
			never := strings.Contains(strings.Join(c.must, ""), `\b\B`)
			if (err != nil) != never {
				t.Fatalf("%v: %v", c, err)
			}
			if err != nil {
				continue
			}
			m := newMachine(g, g.needs(nil))
			for _, text := range texts {
				matches := func(source string) bool { return regexp.MustCompile(source).MatchString(text) }
				want := !slices.ContainsFunc(c.not, matches) &&
					!slices.ContainsFunc(c.must, func(source string) bool { return !matches(source) })
				written := text
				if spelled == jsonText {
					if strings.Contains(text, "\n") && strings.Contains(strings.Join(c.must, ""), ".") {
						continue // . matches other characters in JSON
					}
					written = quoted(text)
				}
				at := m.start
				for i := range len(written) {
					at = m.step(at, written[i])
				}
				if at.ends != want {
					t.Errorf("%q without %q, %q: got %v", c.must, c.not, text, !want)
				}
			}
		}
	}
	for schema, texts := range map[string][2][]string{
		`{"type":"string","pattern":"^(?!.*\\bfoo\\b)[a-z ]+$"}`: {{`"food"`, `"a foot"`}, {`"foo"`, `"a foo b"`}},
		`{"type":"string","pattern":"^(?=.*\\bfoo\\b)[a-z ]+$"}`: {{`"foo"`, `"a foo b"`}, {`"food"`, `"a foot"`}},
		`{"type":"string","pattern":"\\bx\\b","maxLength":3}`:    {{`"x"`, `"é,x"`, `" x "`}, {`"xy"`, `"x123"`, `""`}},
	} {
		g := mustSchema(t, schema)
		for i, all := range texts {
			for _, text := range all {
				if accepts(t, g, text) != (i == 0) {
					t.Errorf("%s: %s: got %v", schema, text, i != 0)
				}
			}
		}
	}
}

// TestGrammarsInSchemas checks that x-gbnf restricts a string to the texts of a grammar, in JSON spelling, wherever a
// string may occur.
func TestGrammarsInSchemas(t *testing.T) {
	const lists = `{"type":"object","required":["a"],"properties":{"a":{"type":["string","null"],"x-gbnf":` +
		`"root ::= \"\\\"\" item (\"\\n\" item)*\nitem ::= [a-c\\\\é]+ | \"<\" root \">\""},` +
		`"b":{"x-gbnf":"root ::= [^\\x00-\\x1f]?"}}}`
	g := mustSchema(t, lists)
	for text, want := range map[string]bool{
		`{"a":"\"abc\nb"}`: true, `{"a":"\"<\"a>"}`: true, `{"a":"\"\\é"}`: true, `{"a":null}`: true,
		`{"a":"\"a","b":"\""}`: true,
		`{"a":"abc"}`:          false, `{"a":"\"abc\n"}`: false, `{"a":"\"<\"a"}`: false, `{"a":""}`: false,
		`{"a":"\"a","b":"\n"}`: false,
		`{"a":"\"a","b":""}`:   true, `{"a":""abc"}`: false,
	} {
		if accepts(t, g, text) != want {
			t.Errorf("%s: got %v", text, !want)
		}
	}
	for schema, want := range map[string]string{
		`{"x-gbnf":7}`:                                                        "#/x-gbnf: found 7",
		`{"items":{"x-gbnf":"root ::= x"}}`:                                   "#/items/x-gbnf: line 1: found the rule",
		`{"x-gbnf":"a ::= \"x\""}`:                                            "#/x-gbnf: found 1 rules",
		`{"x-gbnf":"root ::= \"x\"","maxLength":3}`:                           "#/x-gbnf: found it beside",
		`{"x-gbnf":"root ::= \"x\"","pattern":"a"}`:                           "#/x-gbnf: found it beside",
		`{"x-gbnf":"root ::= \"x\"","enum":["x"]}`:                            "#/x-gbnf: found it beside constants",
		`{"allOf":[{"x-gbnf":"root ::= \"x\""},{"x-gbnf":"root ::= \"y\""}]}`: "found it beside",
		`{"type":"object","propertyNames":{"x-gbnf":"root ::= \"x\""}}`:       "found rules of names",
		`{"x-gbnf":"root ::= root \"a\" | \"b\""}`:                            "#/x-gbnf: line 1: found left recursion",
	} {
		if _, err := Schema([]byte(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", schema, err, want)
		}
	}
}
