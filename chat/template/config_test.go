package template

import (
	"encoding/json"
	"testing"
)

// FuzzConfig checks that no tokenizer_config.json and no message causes a crash, and that a message that was read is
// written unchanged.
func FuzzConfig(f *testing.F) {
	f.Add(`{"chat_template":[{"name":"default","template":"{{ 1 }}"}],"bos_token":{"content":"<s>"},"eos_token":null}`)
	f.Add(`{"chat_template":"x","role":"user","content":[{"type":"text","text":"é\u2028"},1,2.5,true,null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseConfig([]byte(text)); err == nil {
			Parse(c.Source(true))
		}
		var m Message
		if json.Unmarshal([]byte(text), &m) != nil {
			return
		}
		once, err := m.MarshalJSON()
		if err != nil {
			return
		}
		var again Message
		if err := json.Unmarshal(once, &again); err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if twice, err := again.MarshalJSON(); err != nil || string(twice) != string(once) {
			t.Errorf("got %s, %v, want %s", twice, err, once)
		}
	})
}

// TestParseConfig checks that the template and the tokens are found in every form of the file.
func TestParseConfig(t *testing.T) {
	const several = `{"chat_template":[{"name":"default","template":"d"},{"name":"tool_use","template":"u"}]}`
	for text, want := range map[string][4]string{
		`{}`: {},
		`{"chat_template":null,"bos_token":null}`:                           {},
		`{"chat_template":"t","bos_token":"B","eos_token":{"content":"E"}}`: {"t", "t", "B", "E"},
		several: {"d", "u"},
	} {
		c, err := ParseConfig([]byte(text))
		if got := [4]string{c.Source(false), c.Source(true), c.BOS, c.EOS}; err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`[]`, `{"chat_template":5}`, `{"bos_token":5}`, `{"chat_template":{"a":"b"}}`} {
		if _, err := ParseConfig([]byte(text)); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// TestNamedTemplate checks that the name of a format that llama.cpp has built in selects its template.
func TestNamedTemplate(t *testing.T) {
	c, err := ParseConfig([]byte(`{"chat_template": "rwkv-world"}`))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse(c.Source(false))
	if err != nil {
		t.Fatal(err)
	}
	in := Input{AddGenerationPrompt: true, Messages: []Message{Text("system", "Be brief."), Text("user", " hi\n"),
		Text("assistant", " Hi!"), Text("user", "Why?")}}
	got, err := parsed.Render(t.Context(), in)
	const want = "System: Be brief.\n\nUser: hi\n\nAssistant: Hi!\n\nUser: Why?\n\nAssistant:"
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
