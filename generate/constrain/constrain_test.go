package constrain

import (
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// accepts reports whether a grammar accepts a text, byte by byte.
func accepts(t testing.TB, g *Grammar, text string) bool {
	t.Helper()
	m := newMachine(g, g.needs(nil))
	c := cursor{at: m.start}
	for i := range len(text) {
		if c = m.follow(c, text[i]); c.at == m.dead {
			return false
		}
	}
	return c.at.ends
}

func mustSchema(t testing.TB, source string) *Grammar {
	t.Helper()
	g, err := Schema([]byte(source))
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return g
}

// TestSchema checks which texts schemas accept.
func TestSchema(t *testing.T) {
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		{`{"type":"object"}`, []string{`{}`, `{"a":1}`,
			`{ "a": [1, {"b": null}], "é\n\"": "ü😀\u00e9\ud83d\ude00"}`,
			"{\n  \"a\": -1.5e+3\n}"},
			[]string{``, `{`, `[]`, `{"a":01}`, `{"a" :1}`, `{"a":1,}`, "{\"a\":\"\n\"}", `{"a":"\ud83d"}`, `{}x`,
				`{  }`,
				"{\"a\":\"\xff\"}", `{"a":tru}`, `{"a":"\q"}`}},
		{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{}},"required":["b"]}`,
			[]string{`{"b":""}`, `{"a":12,"b":"x"}`, `{"a": 0, "b": "x", "c": [true]}`},
			[]string{`{}`, `{"a":1}`, `{"b":"","a":1}`, `{"b":"","d":1}`, `{"a":1.0,"b":""}`, `{"b":"","b":""}`}},
		{`{"properties":{"ab":{"const":1}},"additionalProperties":{"type":"null"}}`,
			[]string{`{}`, `{"ab":1}`, `{"ab":1,"a":null,"abc":null,"":null}`, `{"b\u0061":null}`, `{"é":null}`},
			[]string{`{"a":1}`, `{"ab":null}`, `{"a\u0062":null}`, `{"x":null,"ab":null}`, `{"ab":1,"\u0061b":null}`}},
		{`{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":3}`,
			[]string{`[true]`, `[true, false]`, `[true,false,true]`}, []string{`[]`, `[1]`, `[true,true,true,true]`}},
		{`{"prefixItems":[{"type":"null"},{"type":"string"}],"items":{"type":"integer"}}`,
			[]string{`[]`, `[null]`, `[null,"a"]`, `[null,"a",1,2]`}, []string{`["a"]`, `[null,1]`, `[null,"a","b"]`}},
		{`{"type":"array","prefixItems":[{"type":"null"}],"items":false}`, []string{`[]`, `[null]`},
			[]string{`[null,null]`}},
		{`{"type":"array","minItems":2}`, []string{`[1,2]`, `[1,{},3]`}, []string{`[]`, `[1]`}},
		{`{"type":["string","null"],"minLength":2,"maxLength":3}`, []string{`null`, `"éü"`, `"abc"`, `"\n\u00e9"`},
			[]string{`""`, `"a"`, `"abcd"`, `"😀"`}},
		{`{"type":"string","minLength":2}`, []string{`"ab"`, `"abcdef"`}, []string{`"a"`, `""`}},
		{`{"type":"string","pattern":"^[a-c]+(\\.x)?$"}`, []string{`"a"`, `"abc.x"`}, []string{`""`, `"ad"`, `"a.x."`}},
		{`{"type":"string","pattern":"b\"","maxLength":4}`, []string{`"b\""`, `"xxb\""`, `"b\"xx"`},
			[]string{`"b"`, `"xxxb\""`, `"b\"xxx"`}},
		{`{"type":"string","pattern":"(?i)^straße$"}`,
			[]string{`"STRAßE"`[:5] + `ße"`, `"ſtraßE"`}, []string{`"strasse"`}},
		{`{"type":"integer","minimum":-12,"maximum":105}`,
			[]string{`0`, `-1`, `-12`, `-9`, `105`, `99`, `100`, `7`},
			[]string{`-0`, `-13`, `106`, `1.0`, `00`, `200`, `1e1`}},
		{`{"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":1000.5}`, []string{`10`, `999`, `1000`},
			[]string{`9`, `1001`, `-10`}},
		{`{"type":"integer","minimum":1e3}`, []string{`1000`, `999999999`}, []string{`999`, `0`}},
		{`{"type":"integer","maximum":-5}`, []string{`-5`, `-10`}, []string{`-4`, `5`, `0`}},
		{`{"type":"number","minimum":0,"maximum":1}`, []string{`0`, `0.5`, `1`, `0.001`}, []string{`1.5`, `-0.1`, `2`}},
		{`{"type":"number","exclusiveMinimum":0}`, []string{`0.01`, `1`, `12.5`}, []string{`0`, `0.0`, `-1`}},
		{`{"type":"number","minimum":-2,"exclusiveMaximum":-1}`,
			[]string{`-2`, `-1.5`, `-1.01`}, []string{`-1`, `-2.1`, `1`}},
		{`{"enum":["a","ab","a\"b",1,null,[1,{"x":2}]]}`,
			[]string{`"a"`, `"ab"`, `"a\"b"`, `1`, `null`, `[1, {"x": 2}]`},
			[]string{`"b"`, `""`, `2`, `[1]`}},
		{`{"type":"string","enum":["a","bb",1],"maxLength":1}`, []string{`"a"`}, []string{`"bb"`, `1`}},
		{`{"const":{"a":[]}}`, []string{`{"a":[]}`}, []string{`{}`}},
		{`{"anyOf":[{"type":"integer"},{"type":"object","properties":{"n":{"$ref":"#"}},"required":["n"]}]}`,
			[]string{`1`, `{"n":1}`, `{"n":{"n":2}}`}, []string{`{}`, `{"n":{}}`}},
		{`{"$defs":{"t":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/t"}}},
			"required":["kids"],"additionalProperties":false}},"$ref":"#/$defs/t"}`,
			[]string{`{"kids":[]}`, `{"kids":[{"kids":[]},{"kids":[{"kids":[]}]}]}`}, []string{`{}`, `{"kids":[1]}`}},
		{`{"allOf":[{"properties":{"a":{"type":"number"}},"required":["a"]},
			{"properties":{"a":{"type":"integer"},"b":{"type":"null"}}}],"type":"object"}`,
			[]string{`{"a":1}`, `{"a":1,"b":null}`}, []string{`{}`, `{"a":1.5}`, `{"a":1,"b":2}`}},
		{`{"type":"object","required":["k"],"oneOf":[{"properties":{"k":{"const":"x"},"v":{"type":"integer"}}},
			{"properties":{"k":{"const":"y"},"v":{"type":"string"}}}]}`,
			[]string{`{"k":"x","v":1}`, `{"k":"y","v":"s"}`, `{"k":"y"}`}, []string{`{"k":"x","v":"s"}`, `{"v":1}`}},
		{`{"anyOf":[{"$ref":"#"},{"type":"null"}]}`, []string{`null`}, []string{`1`}},
		{`{"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"null"},"x-of":1}`,
			[]string{`{"a":null}`}, []string{`{"a":1}`}},
		{`true`, []string{`1`, `[{}]`, ` "x"`}, []string{``, `x`}},
		{`{"type":"string","format":"date"}`, []string{`"2026-11-22"`}, []string{`"2026-13-01"`, `"2026-1-1"`}},
		{`{"type":"string","format":"ipv6"}`,
			[]string{`"::"`, `"::1"`, `"1:2:3:4:5:6:7:8"`}, []string{`":::"`, `"1:2"`}},
	} {
		g := mustSchema(t, c.schema)
		for _, text := range c.yes {
			if !accepts(t, g, text) {
				t.Errorf("%s does not take %s", c.schema, text)
			}
		}
		for _, text := range c.no {
			if accepts(t, g, text) {
				t.Errorf("%s takes %s", c.schema, text)
			}
		}
	}
}

// TestRefused checks that an unsupported or unsatisfiable schema gives an error that names the keyword and its place.
func TestRefused(t *testing.T) {
	for schema, want := range map[string]string{
		`{"properties":{"a":{"not":{"const":1}}}}`:                        "#/properties/a/not: found an object",
		`{"type":"objekt"}`:                                               `#/type: found "objekt"`,
		`{"items":{"uniqueItems":true}}`:                                  `#/items/uniqueItems`,
		`{"$ref":"#/$defs/x"}`:                                            `#/$ref: found "#/$defs/x"`,
		`{"$ref":"http://x"}`:                                             `#/$ref: found "http://x"`,
		`{"properties":{"a":{"$ref":"#"}},"required":["a"]}`:              "without any text",
		`{"type":"string","pattern":"("}`:                                 "#/pattern",
		`{"type":"string","pattern":"(?m)x$"}`:                            "#/pattern",
		`{"type":"string","format":"regex"}`:                              "#/format",
		`{"type":"array","minItems":1000000}`:                             "#/minItems",
		`{"type":"string","minLength":500000}`:                            "#/minLength",
		`{"type":"string","maxLength":-1}`:                                "#/maxLength",
		`{"type":"number","multipleOf":0}`:                                "#/multipleOf",
		`{"type":"number","multipleOf":16411}`:                            "#/multipleOf",
		`{"type":"string","format":"nanoid"}`:                             "#/format",
		`{"type":"string","pattern":"[^\\p{Emoji_Component}]"}`:           "#/pattern",
		`{"type":"string","pattern":"(?!\\p{Emoji_Component})a"}`:         "#/pattern",
		`{"minProperties":3,"properties":{"a":{}}}`:                       "#/minProperties: found 3, want at most 1",
		`{"minProperties":2,"additionalProperties":{}}`:                   "#/minProperties: found 2, want at most 1",
		`{"maxProperties":900000000,"additionalProperties":{}}`:           "#/maxProperties: found 900000000",
		`{"minProperties":2,"maxProperties":1,"additionalProperties":{}}`: "without any text",
		`{"type":"string","pattern":"(?<=a)b"}`:                           "#/pattern",
		`{"type":"string","pattern":"(?!a(?=b))"}`:                        "#/pattern",
		`{"not":{"type":"string"}}`:                                       "#/not",
		`{"type":"number","minimum":2,"maximum":1.5}`:                     "found a language without any text",
		`{"type":"integer","minimum":1e999999999}`:                        "#/minimum",
		`{"type":"integer","minimum":3,"maximum":2}`:                      "without any text",
		`{"enum":[]}`: "#/enum",
		`{`:           "cannot be read",
		`{} {}`:       "more text after",
		`"x"`:         "want a schema",
		`{"pattern":"` + strings.Repeat("(a{1,1000}){1,1000}", 3) + `"}`:   "#/pattern",
		`{"pattern":"` + strings.Repeat("[a-z]{1,900}", 300) + `"}`:        "#/pattern",
		strings.Repeat(`{"items":`, 100) + "{}" + strings.Repeat("}", 100): "deeper",
	} {
		if _, err := Schema([]byte(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: got %v, want %q", schema, err, want)
		}
	}
}

// TestRegexpAndChoices checks that the texts are those that match as a whole, or that are listed.
func TestRegexpAndChoices(t *testing.T) {
	g, err := Regexp(`(yes|no)( [0-9]{2}:[0-9]{2})?|é+`)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"yes": true, "no 12:30": true, "ééé": true, "": false, "yes ": false, "xno": false, "\xc3": false,
	} {
		if got := accepts(t, g, text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	if g, err = Choices([]string{"red", "green", "greenish", "greener", "red"}); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"red": true, "green": true, "greenish": true, "gree": false, "blue": false,
	} {
		if got := accepts(t, g, text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	for _, bad := range []string{"(", "(?m)^x$", strings.Repeat("a{1000}", 100), `[^\x00-\x{10FFFF}]`} {
		if _, err := Regexp(bad); err == nil {
			t.Errorf("%.40q was taken", bad)
		}
	}
	if _, err := Choices(nil); err == nil {
		t.Error("no choices were taken")
	}
}

// TestTokens checks that a token may follow if the grammar accepts all its bytes, and that the text ends when it is
// complete.
func TestTokens(t *testing.T) {
	tok := tokenizer.Bytes()
	c, err := New(mustSchema(t, `{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}`), tok,
		NewVocabulary(tok, nil))
	if err != nil {
		t.Fatal(err)
	}
	text := c.Start()
	for i, x := range []byte(`{"a":true}`) {
		if text.Whole() || text.Ends() {
			t.Fatalf("it ends after %d bytes", i)
		}
		logits := make([]float32, 300)
		if err := text.Mask(logits); err != nil {
			t.Fatal(err)
		}
		for id, v := range logits {
			if may := v == 0; may != strings.Contains(map[int]string{
				0: "{ \n", 1: "\" \n", 2: "a", 3: "\"", 4: ":", 5: "tf ", 6: "r", 7: "u", 8: "e", 9: "} \n",
			}[i], string(rune(id))) {
				t.Errorf("after %d bytes %q: %v", i, rune(id), may)
			}
		}
		if err := text.Accept(int32(x)); err != nil {
			t.Fatal(err)
		}
	}
	if !text.Whole() || !text.Ends() {
		t.Error("it does not end")
	}
	if err := text.Accept('x'); err == nil {
		t.Error("x may follow")
	}
}
