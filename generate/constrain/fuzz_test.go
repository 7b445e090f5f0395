package constrain

import (
	"encoding/json"
	"testing"
	"time"
)

// FuzzSchema checks that any schema is refused or compiled in bounded time, and that a text then written byte by byte
// is JSON.
func FuzzSchema(f *testing.F) {
	for _, source := range []string{
		person, `{"type":"object"}`, `true`, `{"$ref":"#"}`, `{"enum":[1,"a",{"b":[]}]}`,
		`{"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#"}}]}`,
		`{"type":"string","pattern":"^a+$","maxLength":3}`, `{"type":"string","format":"date-time"}`,
		`{"type":"number","exclusiveMinimum":0,"maximum":5}`,
		`{"type":"integer","minimum":-3,"maximum":12345678901234567890}`,
		`{"allOf":[{"required":["a"]},{"properties":{"a":{"const":1}}}]}`, `{"prefixItems":[{},false]}`,
		`{"$defs":{"a/b":{"type":"null"}},"$ref":"#/$defs/a~1b"}`, `{"items":{"minItems":3,"maxItems":2}}`,
	} {
		f.Add([]byte(source), []byte("}]\"1"))
	}
	f.Fuzz(func(t *testing.T, source, wish []byte) {
		if len(source) > 2<<10 {
			return
		}
		begun := time.Now()
		g, err := Schema(source)
		if took := time.Since(begun); took > 10*time.Second {
			t.Fatalf("%s took %v", source, took)
		}
		if err != nil {
			return
		}
		text, whole := finish(t, g, wish)
		if whole && !json.Valid(text) {
			t.Errorf("%s\nwrote %q, which is no JSON", source, text)
		}
	})
}

// FuzzRegexp checks that any expression is refused or compiled, and that a text then written matches.
func FuzzRegexp(f *testing.F) {
	for _, source := range []string{
		`a|b*`, `^(?i)straße$`, `[^\x00-\x20]{2,5}`, `(a*)*b?`, `\pL+\d`, `$^`, `a$|b`, `\Q`,
	} {
		f.Add(source, []byte("ab"))
	}
	f.Fuzz(func(t *testing.T, source string, wish []byte) {
		if len(source) > 200 {
			return
		}
		g, err := Regexp(source)
		if err != nil {
			return
		}
		text, whole := finish(t, g, wish)
		if whole && !newPattern("", source, true).matches(string(text)) {
			t.Errorf("%q wrote %q, which does not match", source, text)
		}
	})
}

// FuzzLark checks that any grammar is refused with the place of the error or compiled in bounded time, and that a text
// can be written.
func FuzzLark(f *testing.F) {
	for _, source := range []string{
		"start: a\na: a \"x\" | b? a~2..3 | /y+/i -> z\nb: [\"b\"]\n%ignore \" \"",
		"?start.2: \"a\"..\"z\" (INT | start)*",
		"%import common (INT, WS)\n%import common.CNAME -> A\nstart: A INT{2,3} // x", "start: (start \"é\" |)+ # x",
		"start: A\nA: /[^\\/]/ \"\\x41\"i B\nB: A", "start: a{b}", "%declare X", "start: \"\"~0 start",
	} {
		f.Add(source, []byte("ab"))
	}
	f.Fuzz(func(t *testing.T, source string, wish []byte) {
		const most = 300
		if len(source) > most {
			return
		}
		begun := time.Now()
		g, err := Lark(source)
		if took := time.Since(begun); took > 10*time.Second {
			t.Fatalf("%q took %v", source, took)
		}
		if err == nil {
			finish(t, g, wish)
		}
	})
}

// finish writes a text. It uses the bytes of wish as far as they may follow, and then bytes that lead to the end.
func finish(t *testing.T, g *Grammar, wish []byte) (text []byte, whole bool) {
	t.Helper()
	m := newMachine(g, g.needs(nil))
	at := m.start
	const most = 3000
	for range most {
		if at.ends && len(wish) == 0 {
			return text, true
		}
		next := byte(0)
		if len(wish) > 0 {
			next, wish = wish[0], wish[1:]
			if m.step(at, next) == m.dead {
				continue
			}
		} else {
			next = end(t, m, at)
		}
		if m.over || m.work > maxWork || len(at.items) > maxItems {
			return text, false
		}
		text, at = append(text, next), m.step(at, next)
	}
	return text, false
}

// end returns a byte that may follow, preferably one that closes something.
func end(t *testing.T, m *machine, at *config) byte {
	t.Helper()
	for _, x := range []byte("}]\"0ea,:\x00") {
		if m.step(at, x) != m.dead {
			return x
		}
	}
	for x := range 256 {
		if m.step(at, byte(x)) != m.dead {
			return byte(x)
		}
	}
	if !m.over {
		t.Fatal("nothing may follow, and the text may not end")
	}
	return 0
}
