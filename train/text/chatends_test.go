package text

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestTemplateWithoutEnd checks that a template that writes no end is an error with advice if no file and no tokenizer
// names one, and that a named end is learnt after the last reply.
func TestTemplateWithoutEnd(t *testing.T) {
	file := jsonl(t, json.RawMessage(`{"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", `+
		`"content": "A"}]}`))
	o := ReadOptions{Cache: data.CacheNone, Chat: map[string][]byte{"chat_template.jinja": []byte(templates["plain"])}}
	_, _, _, err := Tokenize(t.Context(), tokenizer.Bytes(), []string{file}, o)
	if err == nil ||
		!strings.Contains(err.Error(), "messages[1]: the chat template writes no text that ends a reply") ||
		!strings.Contains(err.Error(), "--reply_end TEXT") {
		t.Errorf("without an end: %v", err)
	}
	o.ReplyEnd = "<end>"
	tokens, corpus, _, err := Tokenize(t.Context(), tokenizer.Bytes(), []string{file}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer corpus.Close()
	text := ""
	for i := range tokens.Len() {
		if !tokens.IsGiven(i) {
			text += string(rune(tokens.At(i)))
		}
	}
	if text != " A\n<end>" {
		t.Errorf("learnt is %q", text)
	}
}

// TestTokenizersOfChats checks that the tokenizer, which is made before chats are read, determines how they end, and
// that binary data is only accepted on request.
func TestTokenizersOfChats(t *testing.T) {
	dir := folderOf(t, map[string]string{"own.jinja": templates["plain"],
		"b.bin": strings.Repeat("\x00\x01\xff\xfe\x89", 99)})
	c := small(t)
	c.Data = []string{jsonl(t, json.RawMessage(`{"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", `+
		`"content": "A"}]}`))}
	c.Template = filepath.Join(dir, "own.jinja")
	if _, err := c.OpenData(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "--reply_end TEXT") {
		t.Errorf("without an end: %v", err)
	}
	for _, binary := range []bool{false, true} {
		_, corpus, _, err := Tokenize(t.Context(), tokenizer.Bytes(), []string{filepath.Join(dir, "b.bin")},
			ReadOptions{Cache: data.CacheNone, Binary: binary})
		if (err == nil) != binary {
			t.Errorf("binary %v: %v", binary, err)
		}
		if err == nil {
			corpus.Close()
		}
	}
}

// TestChatEnds checks that a model trained on chats with a template that writes the end of a reply has that end in its
// files, and that its chats end.
func TestChatEnds(t *testing.T) {
	c := small(t)
	c.Template = filepath.Join(t.TempDir(), "own.jinja")
	source := `{% for m in messages %}[{{ m.role[0] }}]{{ m.content }}</>{% endfor %}` +
		`{% if add_generation_prompt %}[a]{% endif %}`
	if err := os.WriteFile(c.Template, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	var chats []any
	for range 40 {
		chats = append(chats, map[string]any{"messages": []map[string]string{{"role": "user", "content": "Q"},
			{"role": "assistant", "content": "yes"}}})
	}
	c.Data, c.Tokenizer, c.Train.Steps, c.Optim.LR = []string{jsonl(t, chats...)}, "bytes", 60, 0.02
	c.Train.EvalEvery, c.Train.SaveEvery, c.Train.SampleEvery = 60, 60, 0
	mustRun(t, c)
	dir, err := model.Resolve(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if err != nil || !strings.Contains(string(text), `"eos_token": "</>"`) {
		t.Errorf("beside the weights: %s, %v", text, err)
	}
	m, _, err := release.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	tok := tokenizer.Bytes()
	settings, err := chat.Load(dir, tok)
	if err != nil {
		t.Fatal(err)
	}
	reply := ""
	err = chat.New(m, tok, settings).Reply(t.Context(), "Q", generate.Options{MaxTokens: 50},
		func(text string) error { reply += text; return nil })
	if err != nil || reply != "yes" {
		t.Errorf("the reply is %q, %v", reply, err)
	}
}
