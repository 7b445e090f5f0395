package constrain

import (
	"bufio"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// ecma are expressions as JSON schema means them, with lookaheads, which Go's lack.
type ecma regexp2.Regexp

func (re *ecma) MatchString(text string) bool {
	ok, err := (*regexp2.Regexp)(re).MatchString(text)
	return ok && err == nil
}

func (re *ecma) String() string { return (*regexp2.Regexp)(re).String() }

// judgeOf is another implementation of JSON schema with another implementation of expressions.
func judgeOf(t testing.TB, source string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(source))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if strings.Contains(source, `"items":[`) {
		c.DefaultDraft(jsonschema.Draft7)
	}
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) {
		re, err := regexp2.Compile(text, regexp2.ECMAScript|regexp2.Unicode)
		return (*ecma)(re), err
	})
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return s
}

// refusedOf are the schemas of testdata/emitted.jsonl that are refused, with the reason.
var refusedOf = map[string]string{
	"zod emoji": "Extended_Pictographic", "pydantic setstr": "uniqueItems", "pydantic setint": "uniqueItems",
	"pydantic conset": "uniqueItems", "pydantic dictlen": "maxProperties", "pydantic ipnet": "ipv4network",
	"zod hostname": "more than 65536 states", "zod emailmax": "more than 65536 states",
	"pydantic ipany": "ipvanyaddress", "pydantic patt": "regex", "pydantic fp": "file-path",
}

// TestEmitted: what is written under each schema that zod 4 and pydantic 2 emit is valid, as another implementation
// tells; the few that are refused name the keyword.
func TestEmitted(t *testing.T) {
	file, err := os.Open("testdata/emitted.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tok := tokenizer.Bytes()
	v := NewVocabulary(tok, nil)
	lines, seen := bufio.NewScanner(file), map[string]bool{}
	for lines.Scan() {
		var c struct {
			Name   string
			Schema json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		t.Run(c.Name, func(t *testing.T) {
			g, err := Schema(c.Schema)
			if reason, ok := refusedOf[c.Name]; ok {
				if seen[c.Name] = true; err == nil || !strings.Contains(err.Error(), reason) {
					t.Errorf("got %v, want an error about %s", err, reason)
				}
				return
			}
			if err != nil {
				if strings.HasSuffix(c.Name, " never") {
					return
				}
				t.Fatal(err)
			}
			checkWritten(t, g, tok, v, judgeOf(t, string(c.Schema)), string(c.Schema))
		})
	}
	if len(seen) != len(refusedOf) {
		t.Errorf("refused are %q of %d", slices.Sorted(maps.Keys(seen)), len(refusedOf))
	}
}

// checkWritten has texts written, and judged.
func checkWritten(t *testing.T, g *Grammar, tok tokenizer.Tokenizer, v *Vocabulary, judge *jsonschema.Schema,
	schema string) {
	t.Helper()
	c, err := New(g, tok, v)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	whole := 0
	for range 12 {
		text, ended := write(t, c, tok.VocabSize(), r, 400)
		if !ended {
			continue
		}
		whole++
		if err := valid(judge, string(text)); err != nil {
			t.Errorf("%s: wrote %s\n%v", schema, text, err)
		}
	}
	if whole == 0 {
		t.Errorf("%s: no text has ended", schema)
	}
}

// TestKeywordsTogether: bounds with fractions, multiples, lookaheads, expressions and formats together, rules of names
// and lists without repetition; what is written is valid, and what is listed as valid is taken.
func TestKeywordsTogether(t *testing.T) {
	tok := tokenizer.Bytes()
	v := NewVocabulary(tok, nil)
	for schema, docs := range map[string][2]string{ // accepted and refused documents, separated by spaces
		`{"type":"number","minimum":0.5,"maximum":2.75}`: {"0.5 0.50 0.51 1 2 2.7 2.75 2.750", "0.4 0.49 2.76 3 0 -1 2.7500001"},
		`{"type":"number","exclusiveMinimum":-1.25,"exclusiveMaximum":-0.125}`: {"-1.2 -1 -0.2 -0.1251",
			"-1.25 -1.250 -0.125 -0.1250 0 -2 -0"},
		`{"type":"number","exclusiveMinimum":0}`:                                                {"0.1 1 10 0.001", "0 0.0 -1"},
		`{"type":"number","multipleOf":0.1}`:                                                    {"0 0.1 -0.3 12.7 5", "0.15 0.01"},
		`{"type":"number","multipleOf":0.25,"minimum":-1,"maximum":1000.3}`:                     {"0.25 0.5 1000.25 -0.75 1000", "0.3 1000.5 -1.25"},
		`{"type":"integer","multipleOf":15,"minimum":0,"maximum":1440}`:                         {"0 15 1440 720", "1 7 1455 -15"},
		`{"type":"integer","multipleOf":2.5}`:                                                   {"5 10 -5", "2 3 7"},
		`{"type":"integer","multipleOf":997}`:                                                   {"997 -1994", "998 1"},
		`{"type":"integer","allOf":[{"multipleOf":4},{"multipleOf":6}]}`:                        {"12 24 0", "4 6 8"},
		`{"enum":[1,2,3,4],"multipleOf":2}`:                                                     {"2 4", "1 3"},
		`{"type":"number","minimum":-3.4028234663852886e+38,"maximum":1.7976931348623157e+308}`: {"1.5 -7", "x"},
		`{"type":"string","pattern":"^a","allOf":[{"pattern":"b$"},{"pattern":"c"}]}`:           {`"acb" "accb"`, `"ab" "cab" "ac"`},
		`{"type":"string","pattern":"^(?!ab)[a-c]{2}$"}`:                                        {`"aa" "ba" "cb"`, `"ab" "abc"`},
		`{"type":"string","pattern":"^(?=.*[0-9])(?=.*[a-z]).{3,5}$"}`:                          {`"a1b" "1xyz"`, `"abc" "123" "a1"`},
		`{"type":"string","pattern":"^[a-z]*(?!.*zz)x"}`:                                        {`"abx" "x"`, `"zzy"`},
		`{"type":"string","pattern":"^(?!a$)[ab]+$"}`:                                           {`"b" "aa" "ab"`, `"a"`},
		`{"type":"string","format":"uuid","pattern":"^0.*f$"}`: {`"00000000-0000-0000-0000-00000000000f"`,
			`"10000000-0000-0000-0000-00000000000f" "0f"`},
		`{"type":"string","format":"date","pattern":"^20"}`: {`"2024-01-28"`, `"1999-01-01"`},
		`{"type":"array","uniqueItems":true,"minItems":1,"items":{"enum":["a","b",3]}}`: {`["a"] ["b","a"] [3,"a","b"]`,
			`[] ["a","a"] ["a","b",3,"a"]`},
		`{"type":"array","uniqueItems":true,"items":{"type":["boolean","null"]}}`:    {`[] [true,null,false]`, `[true,true]`},
		`{"type":"array","uniqueItems":true,"maxItems":1,"items":{"type":"string"}}`: {`["q"] []`, `["a","b"]`},
		`{"type":"object","patternProperties":{"^n_":{"type":"integer"}}}`:           {`{"n_a":1} {}`, `{"n_a":"x"} {"m":1}`},
		`{"type":"object","properties":{"n_a":{}},"patternProperties":{"^n_":{"type":"integer"},"b$":{"minimum":5}},` +
			`"additionalProperties":{"type":"null"}}`: {`{"n_a":1} {"n_b":6} {"xb":7} {"x":null} {"n_a":2,"x":null}`,
			`{"n_a":"x"} {"n_b":4} {"x":1} {"n_":null}`},
		`{"type":"object","allOf":[{"additionalProperties":{"type":"integer"}},{"patternProperties":{"^a":{"minimum":3}}}]}`: {
			`{"a":3}`, `{"a":2} {"a":3.5}`},
		`{"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"boolean"},"required":["a"]}`: {
			`{"a":true} {"a":true,"b":false}`, `{"b":true} {"c":true} {}`},
		`{"type":"object","propertyNames":{"pattern":"^k","maxLength":3},"additionalProperties":{"type":"boolean"}}`: {
			`{"k":true} {} {"kab":true}`, `{"a":true} {"kabc":true}`},
		`{"type":"array","items":[{"type":"string"},{"type":"null"}],"additionalItems":false}`: {`["a",null] ["a"]`,
			`[null] ["a",null,1]`},
		`{"type":"object","properties":{"a":{"not":{}},"b":{"type":"null"}},"required":["b"]}`: {`{"b":null}`, `{"a":1,"b":null}`},
	} {
		g, judge := mustSchema(t, schema), judgeOf(t, schema)
		for i, list := range docs {
			for _, text := range strings.Fields(list) {
				if got := accepts(t, g, text); got != (i == 0) {
					t.Errorf("%s: %s is taken: %v", schema, text, got)
				}
				if err := valid(judge, text); i == 0 && err != nil {
					t.Errorf("%s: the test's own %s: %v", schema, text, err)
				}
			}
		}
		checkWritten(t, g, tok, v, judge, schema)
	}
}
