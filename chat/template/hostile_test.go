package template

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/fault"
)

func render(ctx context.Context, source string, in Input) (string, error) {
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	return t.Render(ctx, in)
}

// hostile maps names to templates that would use up all memory, time or stack, and the error that stops each.
var hostile = map[string][2]string{
	"repeated":       {`{{ 'a' * 100000000000 }}`, "more work"},
	"repeated twice": {`{{ 'a' * 9223372036854775807 * 3 }}`, "more work"},
	"repeated list":  {`{{ [1, 2] * 1000000000 }}`, "more work"},
	"doubled": {
		`{% set n = namespace(s='a') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}`,
		"more work",
	},
	"doubled list": {
		`{% set n = namespace(s=[1]) %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}`,
		"more work",
	},
	"loops":      {strings.Repeat(`{% for i in range(99999) %}`, 9) + strings.Repeat(`{% endfor %}`, 9), "more work"},
	"range":      {`{{ range(100001) | length }}`, "more than 100000"},
	"range from": {`{{ range(-9223372036854775807, 9223372036854775807, 2) }}`, "more than 100000"},
	"recursion":  {`{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`, "calls inside of calls"},
	"recursive loop": {
		`{% set n = namespace() %}{% set n.x = [n] %}{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}`,
		"calls inside of calls",
	},
	"caller": {`{% macro f() %}{% call f() %}{% endcall %}{% endmacro %}{{ f() }}`, "calls inside of calls"},
	"circle": {`{% set n = namespace() %}{% set n.x = [n] %}{{ n }}`, "nests deeper"},
	"circle compared": {
		`{% set n = namespace(x=1) %}{% for i in range(200) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x == [n.x] }}`,
		"nests deeper",
	},
	"wide tree": {
		`{% set n = namespace(x=1) %}{% for i in range(90) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}`,
		"more work",
	},
	"wide tree json": {
		`{% set n = namespace(x=1) %}{% for i in range(90) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | tojson }}`,
		"more work",
	},
	"brackets":      {`{{ ` + strings.Repeat("(", 1<<18) + `1` + strings.Repeat(")", 1<<18) + ` }}`, "nests deeper"},
	"nots":          {`{{ ` + strings.Repeat("not ", 1<<17) + `1 }}`, "nests deeper"},
	"signs":         {`{{ ` + strings.Repeat("- ", 1<<17) + `1 }}`, "nests deeper"},
	"sums":          {`{{ 1` + strings.Repeat("+1", 1<<17) + ` }}`, "in a row"},
	"attributes":    {`{{ a` + strings.Repeat(".a", 1<<17) + ` }}`, "in a row"},
	"filters":       {`{{ 'a'` + strings.Repeat("|upper", 1<<15) + ` }}`, "in a row"},
	"ternaries":     {`{{ 1` + strings.Repeat(" if 1", 1<<15) + ` }}`, "in a row"},
	"elses":         {`{{ 1` + strings.Repeat(" if 1 else 1", 1<<15) + ` }}`, "nests deeper"},
	"blocks":        {strings.Repeat(`{% if 1 %}`, 1<<15), "nests deeper"},
	"indented json": {`{{ [1] | tojson(indent=100000000000) }}`, "more work"},
	"indented":      {`{{ 'a' | indent(100000000000) }}`, "more work"},
	"centered":      {`{{ 'a' | center(9223372036854775807) }}`, "more work"},
	"filled":        {`{{ 'a'.ljust(9223372036854775807) }}`, "more work"},
	"replaced":      {`{% set s = 'a' * 100000 %}{{ s.replace('a', s) }}`, "more work"},
	"joined":        {`{% set s = 'a' * 100000 %}{{ s.join(range(100000) | map('string') | list) }}`, "more work"},
	"batches":       {`{{ [1] | batch(100000000000, 0) | list }}`, "more work"},
	"power":         {`{{ 10 ** 1000000000 }}`, "too large a number"},
	"square":        {`{{ 9223372036854775807 * 9223372036854775807 }}`, "too large a number"},
	"sum":           {`{{ 9223372036854775807 + 1 }}`, "too large a number"},
	"zero":          {`{{ 1 % 0 }}{{ 1 // 0 }}`, "division by zero"},
	"split": {
		`{% set s = 'a ' * 10000000 %}{% for i in range(100) %}{% set x = s.split() %}{% endfor %}`,
		"more work",
	},
	"long": {strings.Repeat("a", maxSource+1), "bytes"},
}

// TestHostileTemplates checks that a template that tries to use up all resources fails soon and holds little memory.
func TestHostileTemplates(t *testing.T) {
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := render(t.Context(), c[0], Input{})
			runtime.ReadMemStats(&after)
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c[1]) {
				t.Errorf("got %v, want an error with %q", err, c[1])
			}
			if made := after.TotalAlloc - before.TotalAlloc; made > 4*maxWork {
				t.Errorf("it made %d bytes", made)
			}
		})
	}
}

// TestRenderStops checks that a rendering ends when its context is done.
func TestRenderStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := render(ctx, `{% for i in range(99999) %}{% endfor %}`, Input{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestLongChat checks that the limit on work grows with the chat, so that a long chat is not rejected as an attack.
func TestLongChat(t *testing.T) {
	const source = `{% for m in messages %}{{ '<' + m.role + '>' + m.content.strip() | trim + '\n' }}{% endfor %}`
	var messages []Message
	for range 300 {
		messages = append(messages, Text("user", strings.Repeat("whale ", 20_000)), Text("assistant", "aye"))
	}
	got, err := render(t.Context(), source, Input{Messages: messages})
	if want := 300 * (len("<user><assistant>aye\n\n") + 6*20_000 - 1); err != nil || len(got) != want {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, want)
	}
}

// TestSharedElements checks that deriving a value from another changes neither the other value nor those already
// derived from it.
func TestSharedElements(t *testing.T) {
	const source = `{% set a = [1, 2, 3] %}{% set b = a[:1] + [9] %}{% set c = a[:1] + [8] %}` +
		`{% set d = a | reverse | list %}{% set e = a | sort(reverse=true) %}{% set f = a[:2] | batch(3, 0) | list %}` +
		`{{ a }}{{ b }}{{ c }}{{ d }}{{ e }}{{ f }}`
	got, err := render(t.Context(), source, Input{})
	if want := "[1, 2, 3][1, 9][1, 8][3, 2, 1][3, 2, 1][[1, 2, 0]]"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestErrorsNameTheLine checks that an error names the line of the template.
func TestErrorsNameTheLine(t *testing.T) {
	for source, want := range map[string]string{
		"a\n\n{{ 1 + }}":                         "line 3: found \"}}\", want a value",
		"{% for x in y %}\n":                     "line 1: {% for %} has no endfor",
		"\n{% set a = 'x %}":                     "line 2: a text in quotes has no end",
		"{# c \n #}\n{{ none.x.y }}":             "line 3: y: its owner is x, which is undefined",
		"\n{% if a %}{% endfor %}":               "line 2: found the statement \"endfor\"",
		"{% include 'a' %}":                      "reads no other files",
		"{{ 1 | nope }}":                         "line 1: found the filter \"nope\", which is not known",
		"{{ [1].append(1) }}":                    "line 1: append: a chat template cannot change a list",
		"{{ raise_exception('not like that') }}": "chat template: not like that",
	} {
		_, err := render(t.Context(), source, Input{})
		want = strings.Replace(want, "reads no", "they read no", 1)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", source, err, want)
		}
	}
}

// TestMessages checks that a message keeps its keys and their order from JSON to the template and back.
func TestMessages(t *testing.T) {
	const text = `{"role":"assistant","content":null,"tool_calls":[{"z":1,"a":2.5,"é\n":"</b>"}]}`
	var m Message
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	again, err := m.MarshalJSON()
	if err != nil || string(again) != text {
		t.Errorf("got %s, %v, want %s", again, err, text)
	}
	got, err := render(t.Context(), "{{ messages[0] | tojson }}", Input{Messages: []Message{m}})
	want := `{"role": "assistant", "content": null, "tool_calls": [{"z": 1, "a": 2.5, "é\n": "</b>"}]}`
	if got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	for text, want := range map[string]string{
		`[]`: "want an object", `{"content":"x"}`: "no \"role\"", `{"role":"user"`: "EOF",
		`{"role":"user","content":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: "nests deeper",
	} {
		if err := new(Message).UnmarshalJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %q", text, err, want)
		}
	}
	if _, err := render(t.Context(), "", Input{Messages: []Message{{}}}); err == nil {
		t.Error("a message of nothing was taken")
	}
}

// FuzzTemplate checks that no template causes a crash, and that the same input gives the same text.
func FuzzTemplate(f *testing.F) {
	for _, path := range []string{"testdata/cases.json", "testdata/cases_python.json"} {
		for _, c := range references(f, path) {
			f.Add(c.Template)
		}
	}
	for _, c := range hostile {
		if len(c[0]) < 300 {
			f.Add(c[0])
		}
	}
	in := Input{
		Messages: []Message{Text("user", "Hi"), Text("assistant", "Ahoy <b>"), Text("user", "é")},
		Tools:    []json.RawMessage{json.RawMessage(`{"function":{"name":"f","parameters":{"a":[1,2.5,null]}}}`)},
		BOS:      "<s>", AddGenerationPrompt: true,
	}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse(source)
		if err != nil {
			return
		}
		once, err := limited(tmpl, in)
		if err != nil {
			return
		}
		if again, err := limited(tmpl, in); err == nil && again != once && !strings.Contains(source, "strftime") {
			t.Errorf("got %q, then %q", once, again)
		}
	})
}

// limited renders with a lower limit on work than chats have, so that more templates can be tried.
func limited(t *Template, in Input) (string, error) {
	r := newRun(context.Background(), in)
	r.work = 1 << 20
	if err := in.fill(r); err != nil {
		return "", err
	}
	err := fault.Catch(func() { r.block(t.body) })
	return r.out.String(), err
}
