package constrain

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/sentencepiece"
)

// drawn is a random schema with a function that returns random valid documents in the written form.
type drawn struct {
	schema   string
	document func() string
}

// maker generates random schemas.
type maker struct{ *rand.Rand }

func (r maker) text() string {
	const letters = "abcé\"\\\n😀 {}[]:,/\t\x01"
	all := []rune(letters)
	out := []rune{}
	for range r.IntN(6) {
		out = append(out, all[r.IntN(len(all))])
	}
	return string(out)
}

func jsonOf(v any) string {
	if s, ok := v.(string); ok {
		return `"` + quoted(s) + `"`
	}
	return fmt.Sprint(v)
}

// schema returns a random schema with at most the given nesting depth.
func (r maker) schema(depth int) drawn {
	n := 11
	if depth == 0 {
		n = 7
	}
	switch r.IntN(n) {
	case 0:
		return drawn{`{"type":["boolean","null"]}`, func() string {
			return []string{"true", "false", "null"}[r.IntN(3)]
		}}
	case 1:
		low := r.IntN(300) - 150
		high := low + r.IntN(2000)
		return drawn{fmt.Sprintf(`{"type":"integer","minimum":%d,"maximum":%d}`, low, high),
			func() string { return strconv.Itoa(low + r.IntN(high-low+1)) }}
	case 2:
		return drawn{`{"type":"number"}`, func() string {
			data, _ := json.Marshal(r.NormFloat64() * 1000) // the number is finite
			return string(data)
		}}
	case 3:
		least := r.IntN(3)
		most := least + r.IntN(4)
		return drawn{fmt.Sprintf(`{"type":"string","minLength":%d,"maxLength":%d}`, least, most), func() string {
			for {
				if s := r.text(); len([]rune(s)) >= least && len([]rune(s)) <= most {
					return jsonOf(s)
				}
			}
		}}
	case 4:
		values := []any{r.text(), r.text(), r.IntN(9), true}
		list := make([]string, len(values))
		for i, v := range values {
			list[i] = jsonOf(v)
		}
		return drawn{`{"enum":[` + strings.Join(list, ",") + `]}`, func() string { return list[r.IntN(len(list))] }}
	case 5:
		return drawn{`{"type":"string","pattern":"^[a-cé]{1,3}(-[0-9]+)?$"}`, func() string {
			return []string{`"a"`, `"éb"`, `"abc-120"`}[r.IntN(3)]
		}}
	case 6:
		format := []string{"date", "uuid", "ipv4", "email", "date-time", "time", "hostname", "ipv6", "uri", "duration"}
		examples := []string{"2024-02-10", "123e4567-e89b-12d3-a456-426614174000", "10.0.255.1", "a.b@example.org",
			"2024-02-10T23:59:00Z", "12:00:01+01:00", "example.org", "fe80:0:0:0:0:0:0:1", "http://a.b/c?d=e", "P3DT4H"}
		i := r.IntN(len(format))
		return drawn{`{"type":"string","format":"` + format[i] + `"}`, func() string { return jsonOf(examples[i]) }}
	case 7, 8:
		return r.object(depth)
	case 9:
		item, least := r.schema(depth-1), r.IntN(2)
		most := least + r.IntN(3)
		return drawn{fmt.Sprintf(`{"type":"array","items":%s,"minItems":%d,"maxItems":%d}`, item.schema, least, most),
			func() string {
				var all []string
				for range least + r.IntN(most-least+1) {
					all = append(all, item.document())
				}
				return "[" + strings.Join(all, ",") + "]"
			}}
	}
	a, b := r.schema(depth-1), r.schema(depth-1)
	return drawn{`{"anyOf":[` + a.schema + `,` + b.schema + `]}`, func() string {
		if r.IntN(2) == 0 {
			return a.document()
		}
		return b.document()
	}}
}

// object returns the schema of an object with some required properties and possibly additional ones.
func (r maker) object(depth int) drawn {
	type member struct {
		name     string
		value    drawn
		required bool
	}
	var all []member
	var properties, required []string
	for i := range 1 + r.IntN(3) {
		m := member{fmt.Sprint(r.text(), i), r.schema(depth - 1), r.IntN(2) == 0}
		all = append(all, m)
		properties = append(properties, jsonOf(m.name)+":"+m.value.schema)
		if m.required {
			required = append(required, jsonOf(m.name))
		}
	}
	other, open := r.schema(0), r.IntN(2) == 0
	additional := "false"
	if open {
		additional = other.schema
	}
	return drawn{
		fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":%s}`,
			strings.Join(properties, ","), strings.Join(required, ","), additional),
		func() string {
			var out []string
			for _, m := range all {
				if m.required || r.IntN(2) == 0 {
					out = append(out, jsonOf(m.name)+":"+m.value.document())
				}
			}
			if open && r.IntN(2) == 0 {
				out = append(out, jsonOf(r.text()+"x")+":"+other.document())
			}
			return "{" + strings.Join(out, ",") + "}"
		}}
}

// validator compiles a schema with another implementation of JSON Schema.
func validator(t testing.TB, source string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(source))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return s
}

func valid(s *jsonschema.Schema, text string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// tokenizers returns tokenizers of several kinds: bytes, byte-level BPE with tokens that cross the borders of JSON's
// parts, and SentencePiece with tokens for bytes.
func tokenizers(t testing.TB) map[string]tokenizer.Tokenizer {
	t.Helper()
	text := strings.Repeat(`{"name":{"a":[1,2,{"b":"c"}],"é":"😀"},"x":[{"y":true},{"y":null}]}, "k": -1.5`+"\n", 50)
	bpe, err := bpe.Train(strings.NewReader(text), bpe.TrainOptions{
		VocabSize: 400,
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../../tokenizer/testdata/sentencepiece.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases map[string]struct{ Model []byte }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	all := map[string]tokenizer.Tokenizer{"bytes": tokenizer.Bytes(), "bpe": bpe}
	for name, c := range file.Cases {
		if slices.Contains([]string{"llama", "unigram with bytes"}, name) {
			if all[name], err = sentencepiece.Parse(c.Model); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(all) < 4 {
		t.Fatalf("%d tokenizers", len(all))
	}
	return all
}

// write writes a text with random logits. whole is false if the text was cut off.
func write(t testing.TB, c *Constraint, vocab int, r *rand.Rand, most int) (text []byte, whole bool) {
	t.Helper()
	s, err := sample.New(sample.Options{Temperature: 1, Seed: r.Uint64()})
	if err != nil {
		t.Fatal(err)
	}
	at, logits := c.Start(), make([]float32, vocab)
	for range most {
		if at.Whole() || at.Ends() && r.IntN(4) == 0 {
			return text, true
		}
		for i := range logits {
			logits[i] = float32(r.NormFloat64())
			if data := c.tok.Decode(nil, []int32{int32(i)}); slices.Contains([]string{`"`, `}`, `]`}, string(data)) {
				logits[i] += 4 // otherwise strings would be long
			}
		}
		if err := at.Mask(logits); err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		id, err := s.Next(logits, nil)
		if err != nil {
			if at.Ends() {
				return text, true
			}
			t.Fatalf("after %q: %v", text, err)
		}
		if err := at.Accept(id); err != nil {
			t.Fatal(err)
		}
		text = c.tok.Decode(text, []int32{id})
	}
	return text, false
}

// TestWhatIsWrittenIsValid checks that every completed text is valid under its schema according to another
// implementation, and that valid documents are accepted, byte by byte.
func TestWhatIsWrittenIsValid(t *testing.T) {
	schemas, texts := 150, 3
	if testing.Short() {
		schemas = 30
	}
	all := tokenizers(t)
	vocabularies := map[string]*Vocabulary{}
	for name, tok := range all {
		vocabularies[name] = NewVocabulary(tok, nil)
	}
	whole, cut := 0, 0
	for seed := range schemas {
		r := maker{rand.New(rand.NewPCG(uint64(seed), 1))}
		d := r.schema(3)
		g, judge := mustSchema(t, d.schema), validator(t, d.schema)
		for range 20 {
			text := d.document()
			if err := valid(judge, text); err != nil {
				t.Fatalf("%s\nthe test's own document %s: %v", d.schema, text, err)
			}
			if !accepts(t, g, text) {
				t.Errorf("%s\ndoes not take %s", d.schema, text)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(all)) { // sorted, so that the random texts are reproducible
			tok := all[name]
			c, err := New(g, tok, vocabularies[name])
			if err != nil {
				t.Fatal(err)
			}
			for range texts {
				text, ended := write(t, c, tok.VocabSize(), r.Rand, 600)
				if !ended {
					cut++
					continue
				}
				whole++
				if err := valid(judge, string(text)); err != nil {
					t.Errorf("%s\n%s: wrote %s\n%v", name, d.schema, text, err)
				}
			}
		}
	}
	t.Logf("%d whole, %d cut", whole, cut)
	if cut > whole/20 {
		t.Errorf("%d texts are whole, and %d were cut", whole, cut)
	}
}
