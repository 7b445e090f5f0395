package constrain

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// person is a typical schema.
const person = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},
	"email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string"}},
	"address":{"type":"object","properties":{"street":{"type":"string"},"zip":{"type":"string","pattern":"^[0-9]{5}$"}},
	"required":["street","zip"],"additionalProperties":false}},
	"required":["name","age","email","tags","address"],"additionalProperties":false}`

const anna = `{"name":"Anna Müller","age":41,"email":"anna@example.org","tags":["a","long tag of some words"],` +
	`"address":{"street":"Hauptstraße 5","zip":"12345"}}`

// walk accepts the tokens of a text and returns the time of each mask.
func walk(t testing.TB, c *Constraint, ids []int32, logits, scratch []float32) (each []time.Duration) {
	t.Helper()
	text := c.Start()
	for _, id := range ids {
		begun := time.Now()
		copy(scratch, logits)
		if err := text.Mask(scratch); err != nil {
			t.Fatal(err)
		}
		each = append(each, time.Since(begun))
		if err := text.Accept(id); err != nil {
			t.Fatal(err)
		}
	}
	return each
}

// lists holds the elements of lists with uniqueItems, by benchmark.
var lists = func() map[string][]string {
	all := map[string][]string{}
	for i := range 100 {
		all["unique"] = append(all["unique"], fmt.Sprintf("%q", fmt.Sprintf("tag number %d", i)))
		all["numbers"] = append(all["numbers"], fmt.Sprint(float64(7*i)/4))
	}
	return all
}()

// TokenTime measures the time that a model takes for a token.
var TokenTime func(b *testing.B) time.Duration

// BenchmarkMask measures the time of a mask with GPT-2's vocabulary in a state that was reached before, for the first
// time, and for the first time after Ahead. It reports nanoseconds, and percent of the time that a Mamba-130M in int8
// takes for a token.
func BenchmarkMask(b *testing.B) {
	of := float64(TokenTime(b).Nanoseconds())
	report := func(b *testing.B, sum time.Duration, tokens int) {
		each := float64(sum.Nanoseconds()) / float64(tokens)
		b.ReportMetric(each, "ns/token")
		b.ReportMetric(100*each/of, "%token")
	}
	tok := tokenizer.GPT2()
	v := NewVocabulary(tok, nil)
	ids, err := tok.Encode(nil, []byte(anna))
	if err != nil {
		b.Fatal(err)
	}
	logits, scratch := make([]float32, tok.VocabSize()), make([]float32, tok.VocabSize())
	rules, err := os.ReadFile("testdata/gbnf/json.gbnf")
	if err != nil {
		b.Fatal(err)
	}
	text := ids
	for name, g := range map[string]*Grammar{
		"person": mustSchema(b, person), "object": mustSchema(b, `{"type":"object"}`),
		"gbnf": mustGBNF(b, string(rules)), "unique": mustSchema(b, `{"uniqueItems":true,"items":{"type":"string"}}`),
		"numbers": mustSchema(b, `{"uniqueItems":true,"items":{"type":"number"}}`),
	} {
		ids := text
		if list, ok := lists[name]; ok {
			if ids, err = tok.Encode(nil, []byte("["+strings.Join(list, ",")+"]")); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name+"/again", func(b *testing.B) {
			c, err := New(g, tok, v)
			if err != nil {
				b.Fatal(err)
			}
			walk(b, c, ids, logits, scratch)
			for b.Loop() {
				walk(b, c, ids, logits, scratch)
			}
			report(b, b.Elapsed(), b.N*len(ids))
		})
		first := func(b *testing.B, ahead bool) {
			var most, sum, before time.Duration
			for b.Loop() {
				c, err := New(g, tok, v)
				if err != nil {
					b.Fatal(err)
				}
				if begun := time.Now(); ahead {
					c.Ahead()
					before += time.Since(begun)
				}
				for _, d := range walk(b, c, ids, logits, scratch) {
					most = max(most, d)
					sum += d
				}
			}
			report(b, sum, b.N*len(ids))
			b.ReportMetric(float64(most.Nanoseconds()), "ns/worst")
			b.ReportMetric(float64(before.Nanoseconds())/float64(b.N), "ns/ahead")
		}
		b.Run(name+"/first", func(b *testing.B) { first(b, false) })
		b.Run(name+"/ahead", func(b *testing.B) { first(b, true) })
	}
	b.Run("vocabulary", func(b *testing.B) {
		for b.Loop() {
			NewVocabulary(tok, nil)
		}
	})
	b.Run("compile", func(b *testing.B) {
		for b.Loop() {
			mustSchema(b, person)
		}
	})
}
