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

// ecma is a regular expression in the dialect of JSON Schema, with lookaheads, which Go's lack.
type ecma regexp2.Regexp

func (re *ecma) MatchString(text string) bool {
	ok, err := (*regexp2.Regexp)(re).MatchString(text)
	return ok && err == nil
}

func (re *ecma) String() string { return (*regexp2.Regexp)(re).String() }

// judgeOf compiles a schema with other implementations of JSON Schema and of regular expressions.
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

// refusedOf maps the schemas of testdata/emitted.jsonl that are refused to a part of the error.
var refusedOf = map[string]string{
	"pydantic ipnet": "ipv4network",

	"pydantic ipany": "ipvanyaddress", "pydantic patt": "regex", "pydantic fp": "file-path",
}

// TestEmitted checks that texts written under the schemas that zod 4 and pydantic 2 emit are valid according to another
// implementation, and that the errors of the few refused schemas name the keyword.
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

// checkWritten writes random texts and validates them.
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

// TestKeywordsTogether checks fractional bounds, multiples, lookaheads, combined expressions and formats, rules for
// names and lists without repetition: written texts are valid, and the texts listed as valid are accepted.
func TestKeywordsTogether(t *testing.T) {
	tok := tokenizer.Bytes()
	v := NewVocabulary(tok, nil)
	data, err := os.ReadFile("testdata/keywords.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		lines := strings.Split(c, "\n") // a schema, documents that it accepts, and documents that it refuses
		schema, docs := lines[0], lines[1:]
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
