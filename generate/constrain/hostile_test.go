package constrain

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// hostile returns schemas that would take excessive time or memory without limits.
func hostile() map[string]string {
	many := func(n int, format string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = strings.NewReplacer("#i", fmt.Sprint(i), "#j", fmt.Sprint((i+1)%n), "#k", fmt.Sprint(i*3%n),
				"#l", fmt.Sprint((i*5+1)%n)).Replace(format)
		}
		return strings.Join(parts, ",")
	}
	return map[string]string{
		"deep":         strings.Repeat(`{"items":`, 20000) + "{}" + strings.Repeat("}", 20000),
		"alternatives": `{"anyOf":[` + many(25000, `{}`) + `]}`,
		"constants":    `{"enum":[` + many(1000000, `#i`) + `]}`,
		"enum":         `{"enum":[` + many(20000, `"x#i"`) + `]}`,
		"minItems":     `{"type":"array","minItems":999999999}`,
		"maxItems":     `{"type":"array","items":{"type":"array","maxItems":100000},"maxItems":100000}`,
		"maxLength":    `{"type":"string","maxLength":999999999}`,
		"expression":   `{"pattern":"((a{0,100}){0,100}){0,100}"}`,
		"expressions":  `{"properties":{` + many(500, `"#i":{"pattern":"(x+x+)+y{900}#i"}`) + `}}`,
		"product":      `{"type":"string","pattern":"^(a|b|ab|ba){1,900}$","maxLength":5000}`,
		"choices":      `{"allOf":[` + many(30, `{"anyOf":[{"type":"string"},{"type":"null"},{"minLength":1}]}`) + `]}`,
		"references": `{"$defs":{` + many(2000, `"d#i":{"anyOf":[{"$ref":"#/$defs/d#j"},{"$ref":"#/$defs/d#k"}]}`) +
			`},"$ref":"#/$defs/d0"}`,
		"subsets": `{"$defs":{` + many(16, `"d#i":{"properties":{"a":{"$ref":"#/$defs/d#j"},
			"b":{"allOf":[{"$ref":"#/$defs/d#k"},{"$ref":"#/$defs/d#l"}]}}}`) + `},"$ref":"#/$defs/d0"}`,
		"optional": `{"properties":{` + many(3000, `"p#i":{}`) + `}}`,
		"prefixes": `{"anyOf":[` +
			many(2000, `{"type":"object","properties":{"kind":{"const":"#i"}},"required":["kind"]}`) + `]}`,
		"names": `{"properties":{` + many(100, `"`+strings.Repeat("n", 2000)+`#i":{}`) +
			`},"additionalProperties":true}`,
		"classes": `{"properties":{` + many(100, `"#i":{"pattern":"^[\\pL\\pN][^\\pL#i]{1,30}$"}`) + `}}`,
		"numbers": `{"type":"integer","minimum":-` + strings.Repeat("9", 100000) + `}`,
		"ambiguous": `{"type":"array","items":{"pattern":"^(` + strings.Repeat("a*", 200) + `|(a|b)*)*$"},
			"prefixItems":[{"pattern":"(a*a*a*a*)*b"}]}`,
	}
}

// TestHostile checks that a hostile schema is refused, or compiled and its first masks computed, with time and memory
// that a server can afford. Each takes some tens of milliseconds on an idle machine.
func TestHostile(t *testing.T) {
	const mostTime, mostMemory = 10 * time.Second, 192 << 20 // the race detector doubles the allocated memory
	tok := tokenizer.GPT2()
	v := NewVocabulary(tok, nil)
	for name, source := range hostile() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun := time.Now()
		g, err := Schema([]byte(source))
		if err == nil {
			var c *Constraint
			if c, err = New(g, tok, v); err != nil {
				t.Fatal(err)
			}
			text, logits := c.Start(), make([]float32, tok.VocabSize())
			for _, x := range []byte("[\"a") {
				if err = text.Mask(logits); err != nil || text.take([]byte{x}) != nil {
					break
				}
			}
		}
		took := time.Since(begun)
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d bytes take %v and %d KiB: %.150v", name, len(source), took, used>>10, err)
		if took > mostTime || used > mostMemory {
			t.Errorf("%s: %v and %d KiB, want at most %v and %d KiB", name, took, used>>10, mostTime, mostMemory>>10)
		}
	}
}

// TestAmbiguousText checks that a text whose masks all take long ends with an error, and that other texts of the
// constraint can continue.
func TestAmbiguousText(t *testing.T) {
	tok := tokenizer.GPT2()
	g, err := Regexp("(?s).*e.{400}|x")
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(g, tok, NewVocabulary(tok, nil))
	if err != nil {
		t.Fatal(err)
	}
	logits := make([]float32, tok.VocabSize())
	begun, text, tokens := time.Now(), c.Start(), 0
	for ; tokens < 2000 && err == nil; tokens++ {
		if err = text.Mask(logits); err == nil {
			err = text.take([]byte("e "[tokens%2 : tokens%2+1]))
		}
	}
	t.Logf("%d tokens in %v: %v, %d KiB kept", tokens, time.Since(begun), err, c.machine.size>>10)
	if !errors.Is(err, ErrAmbiguous) {
		t.Errorf("got %v after %d tokens, want %v", err, tokens, ErrAmbiguous)
	}
	other := c.Start()
	if err := other.take([]byte("x")); err != nil || !other.Ends() {
		t.Errorf("another text: %v", err)
	}
}

// TestLongText checks that masks of an ordinary schema are fast even if each character leads to a new state.
func TestLongText(t *testing.T) {
	tok := tokenizer.GPT2()
	c, err := New(mustSchema(t, `{"type":"string","maxLength":5000}`), tok, NewVocabulary(tok, nil))
	if err != nil {
		t.Fatal(err)
	}
	logits := make([]float32, tok.VocabSize())
	text, most := c.Start(), 0
	for i, x := range []byte(`"` + strings.Repeat("a long text. ", 23)) {
		before := text.machine.work
		if err := text.Mask(logits); err != nil {
			t.Fatalf("after %d bytes: %v", i, err)
		}
		if err := text.take([]byte{x}); err != nil {
			t.Fatal(err)
		}
		if text.machine.work >= before && i > 50 { // otherwise a new machine was started
			most = max(most, text.machine.work-before)
		}
	}
	if t.Logf("%d items a token", most); most > tokenWork {
		t.Errorf("a token takes %d items, want at most %d", most, tokenWork)
	}
}
