package constrain

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
)

// TestUniqueMasks checks that in lists of different elements a token may follow exactly if the text can then be
// completed, even a token that ends an element and starts others, and that written texts are valid according to another
// implementation.
func TestUniqueMasks(t *testing.T) {
	// The tokens include some that end an element and start the next.
	text := strings.Repeat(`["a","b","ab"],["a","a"],[1,11,1.0,10],["b", "a"], "a\u0061","a"]}1,1,0]`, 50)
	pairs, err := bpe.Train(strings.NewReader(text), bpe.TrainOptions{VocabSize: 330})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(28, 1))
	tried, whole, dropped := 0, 0, 0
	schemas := map[string]string{
		"few":   `{"type":"array","uniqueItems":true,"minItems":4,"items":{"type":"string","pattern":"^[ab]{1,2}$"}}`,
		"short": `{"type":"array","uniqueItems":true,"items":{"enum":["a","b","c","d","e","f","g","h","i","j","k"]}}`,
		"numbers": `{"type":"array","uniqueItems":true,"minItems":2,
			"items":{"type":"number","minimum":0,"maximum":1.1}}`,
		"any": `{"type":"array","items":{"type":"array","uniqueItems":true,"minItems":3,
			"items":{"type":["string","integer"],"maxLength":2}}}`,
	}
	for _, name := range slices.Sorted(maps.Keys(schemas)) { // sorted, so that the random texts are reproducible
		schema := schemas[name]
		judge := validator(t, schema)
		for tokens, tok := range []tokenizer.Tokenizer{tokenizer.Bytes(), pairs} {
			c, err := New(mustSchema(t, schema), tok, NewVocabulary(tok, nil))
			if err != nil {
				t.Fatal(err)
			}
			for range 4 {
				at, written := c.Start(), ""
				for range 60 {
					mask, err := at.mask()
					if err != nil {
						t.Fatalf("%s, %d: after %s: %v", name, tokens, written, err)
					}
					var may []int32
					for id := range int32(c.vocabulary.size) {
						to, text := *at, tok.Decode(nil, []int32{id})
						want := slices.Contains(c.vocabulary.ids, id) && to.take(text) == nil
						if got := mask[id/64]>>(id%64)&1 == 1; got != want {
							t.Fatalf("%s, %d: after %s: %q may follow: %v, want %v", name, tokens, written, text,
								got, want)
						}
						if !want && at.at.mask[id/64]>>(id%64)&1 == 1 {
							dropped++
						} else if want && strings.Contains("abcdefghijk01.,[]\"\\u6", string(text[:1])) {
							may = append(may, id)
						}
					}
					if at.Whole() {
						break
					}
					if len(may) == 0 {
						t.Fatalf("%s, %d: after %s: nothing may follow", name, tokens, written)
					}
					id := may[r.IntN(len(may))]
					if err := at.Accept(id); err != nil {
						t.Fatal(err)
					}
					written += string(tok.Decode(nil, []int32{id}))
				}
				if tried++; at.Ends() {
					whole++
					if err := valid(judge, written); err != nil {
						t.Errorf("%s, %d: wrote %s\n%v", name, tokens, written, err)
					}
				}
			}
		}
	}
	if t.Logf("%d of %d are whole, %d tokens excluded", whole, tried, dropped); whole < tried/2 || dropped < 100 {
		t.Errorf("%d of %d texts are whole, %d tokens were excluded", whole, tried, dropped)
	}
}

// TestUniqueRefused checks that elements that cannot be remembered, or of which there are too few, give an error that
// names the keyword.
func TestUniqueRefused(t *testing.T) {
	const parts = "#/uniqueItems: found true for elements that may be lists"
	for schema, want := range map[string]string{
		`{"uniqueItems":true}`:                                                        parts,
		`{"uniqueItems":true,"items":{}}`:                                             parts,
		`{"uniqueItems":true,"items":{"type":["string","object"]}}`:                   parts,
		`{"uniqueItems":true,"items":{"anyOf":[{"type":"string"},{"type":"array"}]}}`: parts,
		`{"uniqueItems":true,"prefixItems":[{"const":1}],"items":{"type":"string"}}`: "#/uniqueItems: found true " +
			"beside prefixItems",
		`{"uniqueItems":true,"minItems":3,"items":{"type":"string","pattern":"^a?$"}}`: "#/minItems: found 3 beside " +
			"uniqueItems, want at most 2",
		`{"uniqueItems":true,"minItems":13,"items":{"type":"integer","minimum":0,"maximum":11}}`: "#/minItems: found " +
			"13 beside uniqueItems, want at most 12",
		`{"uniqueItems":true,"minItems":65,"items":{"type":"string"}}`: "#/minItems: found 65 beside uniqueItems, " +
			"want at most 64",
		`{"uniqueItems":true,"minItems":64,"items":{"type":"string","pattern":"^[a-y]*z$"}}`: "",
		`{"uniqueItems":true,"minItems":64,"items":{"type":"string","format":"uuid"}}`:       "",
	} {
		_, err := Schema([]byte(schema))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", schema, err, want)
		}
	}
}

// TestUniqueBombs checks that a list of many or long elements takes memory only for the written text, and bounded time
// for a token.
func TestUniqueBombs(t *testing.T) {
	tok := tokenizer.GPT2()
	v := NewVocabulary(tok, nil)
	long := strings.Repeat("a", 40<<10)
	var many, numbers, used []string
	for i := range 2000 {
		many, numbers = append(many, fmt.Sprintf("%q", fmt.Sprint("a", i))), append(numbers, fmt.Sprint(i))
	}
	for i := range 1 << 9 {
		used = append(used, fmt.Sprintf(`"%09b"`, i))
	}
	texts := map[string]string{
		"long":    `{"uniqueItems":true,"items":{"type":"string"}}` + "\n" + `["` + long + `","` + long + `b","` + long,
		"many":    `{"uniqueItems":true,"items":{"type":"string"}}` + "\n[" + strings.Join(many, ","),
		"numbers": `{"uniqueItems":true,"items":{"type":"number"}}` + "\n[" + strings.Join(numbers, ","),
		"used up": `{"uniqueItems":true,"items":{"type":"string","pattern":"^[01]{9,10}$"}}` + "\n[" +
			strings.Join(used, ",") + `,"`,
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		schema, text, _ := strings.Cut(texts[name], "\n")
		c, err := New(mustSchema(t, schema), tok, v)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		at := c.Start()
		for part := range slices.Chunk([]byte(text), 16) { // size of a token
			if err := at.take(part); err != nil {
				t.Fatalf("%s: %q: %v", name, part, err)
			}
		}
		work := at.machine.work
		mask, err := at.mask()
		runtime.ReadMemStats(&after)
		mebibytes := (after.TotalAlloc - before.TotalAlloc) >> 20
		if t.Logf("%s: %d items, %d MiB: %v", name, at.machine.work-work, mebibytes, err); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		const most = 400
		if mebibytes > most {
			t.Errorf("%s: %d MiB, want at most %d", name, mebibytes, most)
		}
		quote := tokenOf(t, tok, `"`)
		if mask[quote/64]>>(quote%64)&1 == 1 {
			t.Errorf("%s: a quotation mark may follow", name)
		}
	}
}

// TestUniqueSearch checks that the search for another possible element does not follow the white space before it.
func TestUniqueSearch(t *testing.T) {
	for kind, begin := range map[string]string{"string": `["a",`, "number": `[1,`} {
		tok := tokenizer.Bytes()
		c, err := New(mustSchema(t, `{"uniqueItems":true,"items":{"type":"`+kind+`"}}`), tok, NewVocabulary(tok, nil))
		if err != nil {
			t.Fatal(err)
		}
		at := c.Start()
		if err := at.take([]byte(begin)); err != nil { // also caches all configurations on the way
			t.Fatal(err)
		}
		work := at.machine.work
		const most = 12 // items: 4 at each position
		if !at.machine.alive(at.cursor) || at.machine.work-work > most {
			t.Errorf("%s: %d items were met, want at most %d", kind, at.machine.work-work, most)
		}
	}
}

func tokenOf(t *testing.T, tok tokenizer.Tokenizer, text string) int32 {
	t.Helper()
	ids, err := tok.Encode(nil, []byte(text))
	if err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	return ids[0]
}
