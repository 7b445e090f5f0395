package chat

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// endings holds chat templates and the text that each writes after a reply.
var endings = []struct{ source, end string }{
	{"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}", "<|im_end|>"},
	{"{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %}" +
		" {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}", "</s>"},
	{"{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", ""},
	{"{% for m in messages %}### {{ m.role }}\n{{ m.content }}\n\n{% endfor %}", ""},
	{"{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</turn> {% if not loop.last %}<eos>{% endif %}" +
		"{% endfor %}", "</turn>"},
	{"{% for m in messages %}{{ m.content }}{% if loop.last %}END{% endif %}{% endfor %}", ""}, // not before a message
	{"{{ raise_exception('no') }}", ""},
	{"nothing of it", ""},
}

// rwkvWorld is a template of RWKV's chats, in which only a line that names the user shows where a reply ends.
const rwkvWorld = "{% for m in messages %}{% if m.role == 'user' %}User: {% else %}Assistant: {% endif %}" +
	"{{ m.content }}\n\n{% endfor %}{% if add_generation_prompt %}Assistant: <think{% endif %}"

// TestReplyEnd checks that the end of a reply is the text that a template writes after one, wherever the reply is.
func TestReplyEnd(t *testing.T) {
	for _, c := range endings {
		parsed, err := template.Parse(c.source)
		if err != nil {
			t.Fatal(err)
		}
		if got := ReplyEnd(parsed, "<s>", "</s>"); got != c.end {
			t.Errorf("%q: found the end %q, want %q", c.source, got, c.end)
		}
	}
}

// TestEndOfTemplate checks that a model whose files name no end, or another one, has the end of its template, and that
// a model whose files name it has it once.
func TestEndOfTemplate(t *testing.T) {
	tok := byteTokens(t, "<|im_end|>", "</s>")
	ends := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Load(dir, tok)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(s.EndIDs, s.Stop)
	}
	chatML := endings[0].source
	for _, c := range []struct {
		want  string
		files map[string]string
	}{
		{"[256] []", map[string]string{template.SourceFile: chatML}},
		{"[256] []", map[string]string{template.SourceFile: chatML, GenerationFile: `{"eos_token_id": 256}`}},
		{"[257 256] []", map[string]string{template.SourceFile: chatML, GenerationFile: `{"eos_token_id": [257]}`}},
		{"[257 256] []", map[string]string{template.SourceFile: chatML, template.ConfigFile: `{"eos_token": "</s>"}`}},
		{"[] [</turn>]", map[string]string{template.SourceFile: endings[4].source}},
		{"[257] []", map[string]string{template.SourceFile: endings[2].source,
			template.ConfigFile: `{"eos_token": "</s>"}`}},
		{"[] []", map[string]string{template.SourceFile: endings[2].source}},
		{"[257] [\n\nUser:]", map[string]string{template.SourceFile: rwkvWorld,
			template.ConfigFile: `{"eos_token": "</s>"}`}},
		{"[] [\n\nUser:]", map[string]string{template.ConfigFile: `{"chat_template": "rwkv-world"}`}},
		{"[] []", map[string]string{template.SourceFile: endings[3].source}},
	} {
		if got := ends(c.files); got != c.want {
			t.Errorf("%v: ends %s, want %s", c.files, got, c.want)
		}
	}
}

// TestWithEnd checks that an end added to the files of a model is used when they are read, and replaces no other.
func TestWithEnd(t *testing.T) {
	tok := byteTokens(t, "<|im_end|>", "</s>")
	for _, c := range []struct{ config, generation, end, want string }{
		{"", "", "<|im_end|>", "[256] []"},
		{`{"a": 1}`, `{"temperature": 0.5}`, "<|im_end|>", "[256] []"},
		{`{"eos_token": "</s>"}`, "", "<|im_end|>", "[257 256] []"},
		{`{"eos_token": {"content": "</s>"}}`, `{"eos_token_id": 65}`, "<|im_end|>", "[65 256] []"},
		{`{"eos_token": "</s>"}`, `{"stop_strings": "x"}`, "### User", "[257] [x ### User]"},
		{`{"eos_token": "</s>"}`, `{"eos_token_id": [257, 256]}`, "<|im_end|>", "[257 256] []"},
	} {
		files := map[string][]byte{}
		for name, text := range map[string]string{template.ConfigFile: c.config, GenerationFile: c.generation} {
			if text != "" {
				files[name] = []byte(text)
			}
		}
		got, err := WithEnd(files, c.end, tok)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(got[template.ConfigFile], got[GenerationFile], tok, "test")
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(s.EndIDs, s.Stop); text != c.want {
			t.Errorf("%+v: ends %s, want %s", c, text, c.want)
		}
		var fields map[string]any
		if err := json.Unmarshal(got[template.ConfigFile], &fields); c.config == `{"a": 1}` && fields["a"] != 1.0 {
			t.Errorf("%s: %v lost a field", got[template.ConfigFile], err)
		}
	}
	if _, err := WithEnd(map[string][]byte{GenerationFile: []byte("[")}, "x", tok); err == nil {
		t.Error("a broken file was taken")
	}
}

// byteTokens returns a tokenizer of bytes with some special tokens, from id 256 on.
func byteTokens(t *testing.T, special ...string) tokenizer.Tokenizer {
	t.Helper()
	vocab, added := map[string]int{}, []map[string]any{}
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae && b <= 0xff }
	n := 0
	for b := range 256 { // in the way GPT-2 writes bytes
		r := rune(b)
		if !printable(b) {
			r = rune(256 + n)
			n++
		}
		vocab[string(r)] = b
	}
	for i, text := range slices.Clone(special) {
		vocab[text] = 256 + i
		added = append(added, map[string]any{"id": 256 + i, "content": text, "special": true, "normalized": false})
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	data, err := json.Marshal(map[string]any{"version": "1.0", "added_tokens": added, "pre_tokenizer": level,
		"decoder": level, "model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), tokenizer.FileName)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
