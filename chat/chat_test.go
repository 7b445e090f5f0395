package chat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

const source = `{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`

// bytesModel returns a model over bytes with random weights.
func bytesModel(t *testing.T) *model.Model {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DState = 16, 256, "h3,attention", 2, 8
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(3)
	return m
}

func newChat(t *testing.T, source string) *Chat {
	t.Helper()
	s := &Settings{BOS: "^"}
	if source != "" {
		var err error
		if s.Template, err = template.Parse(source); err != nil {
			t.Fatal(err)
		}
	}
	return New(bytesModel(t), tokenizer.Bytes(), s)
}

func options() generate.Options {
	o := generate.DefaultOptions()
	o.Temperature, o.MaxTokens = 0, 12
	return o
}

// say returns the reply to a message.
func say(t *testing.T, c *Chat, message string) string {
	t.Helper()
	var reply strings.Builder
	err := c.Reply(t.Context(), message, options(), func(text string) error {
		reply.WriteString(text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return reply.String()
}

// TestReadsOnlyWhatIsNew checks that a second message costs only its new tokens. The reply must equal that of a chat
// that reads everything again.
func TestReadsOnlyWhatIsNew(t *testing.T) {
	for name, source := range map[string]string{"template": source, "plain text": ""} {
		t.Run(name, func(t *testing.T) {
			c := newChat(t, source)
			first := say(t, c, "Call me")
			read := c.Stats().PrefillTokens
			fresh := newChat(t, source)
			fresh.SetMessages(c.Messages())
			reply := say(t, c, "Aye")
			if want := say(t, fresh, "Aye"); reply != want {
				t.Errorf("got %q, want %q", reply, want)
			}
			// Bytes that are not text are emitted as U+FFFD, so a reply with such bytes is read again.
			again := 0
			if strings.Contains(first, "\ufffd") {
				again = len(first)
			}
			most := len("\n<user>Aye\n<assistant>") + again
			if more := c.Stats().PrefillTokens - read; more > most || more < len("Aye") {
				t.Errorf("it read %d tokens, want at most %d", more, most)
			}
		})
	}
}

// TestUndoAndFork checks that a removed message has no effect on later replies, and that a fork does not affect the
// original chat.
func TestUndoAndFork(t *testing.T) {
	c := newChat(t, source)
	say(t, c, "Call me")
	fork := c.Fork()
	one := say(t, c, "Aye")
	if !c.Undo() {
		t.Fatal("nothing to take back")
	}
	say(t, c, "Nay")
	c.Undo()
	if again := say(t, c, "Aye"); again != one {
		t.Errorf("after two undos: got %q, want %q", again, one)
	}
	if got := say(t, fork, "Aye"); got != one || len(fork.Messages()) != 4 {
		t.Errorf("the fork says %q after %d messages, want %q", got, len(fork.Messages()), one)
	}
	c.Undo()
	c.Undo()
	if c.Undo() || len(c.Messages()) != 0 {
		t.Errorf("%d messages are left after undoing all", len(c.Messages()))
	}
}

// TestSystem checks that the system message comes before all others and changes the reply.
func TestSystem(t *testing.T) {
	c := newChat(t, source)
	c.SetSystem("Be brief.")
	say(t, c, "Call me")
	if m := c.Messages(); len(m) != 3 || m[0].Role() != "system" || m[0].Content() != "Be brief." {
		t.Errorf("got the messages %v", m)
	}
	prompt, err := c.prompt(t.Context())
	if want := "^<system>Be brief.\n<user>Call me\n<assistant>"; err != nil || !strings.HasPrefix(prompt, want) {
		t.Errorf("got %q, %v, want %q", prompt, err, want)
	}
}

// TestStoppedReply checks that a stopped reply keeps the text written so far and that the chat can continue. If it is
// stopped before its first piece, the message is removed.
func TestStoppedReply(t *testing.T) {
	c := newChat(t, source)
	ctx, cancel := context.WithCancel(t.Context())
	text := ""
	err := c.Reply(ctx, "Call me", options(), func(piece string) error {
		text += piece
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || text == "" || c.Messages()[1].Content() != text {
		t.Fatalf("got %v after %q, messages %v", err, text, c.Messages())
	}
	if err := c.Reply(ctx, "Aye", options(), func(string) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if n := len(c.Messages()); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
	say(t, c, "Aye")
}

// TestSaveAndLoad checks that a saved chat continues as the original does.
func TestSaveAndLoad(t *testing.T) {
	c := newChat(t, source)
	c.SetSystem("é \"brief\"\n")
	say(t, c, "Call me")
	path := filepath.Join(t.TempDir(), "chat.json")
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	loaded := newChat(t, source)
	if err := loaded.Load(path); err != nil {
		t.Fatal(err)
	}
	if got, want := say(t, loaded, "Aye"), say(t, c, "Aye"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for text, want := range map[string]string{
		"{}": `no "messages"`, `{"messages":[{}]}`: `no "role"`, `{"messages":5}`: "messages", "x": "invalid character",
	} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := loaded.Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestLoadSettings checks that the template, the sampling and the ids that end a reply are read from the files beside a
// model's weights.
func TestLoadSettings(t *testing.T) {
	load := func(files map[string]string) (*Settings, error) {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		return Load(dir, tokenizer.Bytes())
	}
	s, err := load(map[string]string{
		template.ConfigFile: `{"chat_template":"old","bos_token":"^","eos_token":"$"}`, template.SourceFile: "new",
		GenerationFile: `{"temperature":0.5,"top_k":7,"top_p":0.9,"min_p":0.1,"repetition_penalty":1.1,
			"max_new_tokens":9,"eos_token_id":[3,4],"transformers_version":"5"}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := s.Template.Render(t.Context(), template.Input{}); text != "new" || err != nil {
		t.Errorf("the template gives %q, %v", text, err)
	}
	o := generate.DefaultOptions()
	s.Defaults.Apply(&o)
	if o.Temperature != 0.5 || o.TopK != 7 || o.TopP != 0.9 || o.MinP != 0.1 || o.RepetitionPenalty != 1.1 ||
		o.MaxTokens != 9 || len(s.EndIDs) != 2 || s.BOS != "^" {
		t.Errorf("got %+v, %+v", o, s)
	}
	if s, err = load(map[string]string{template.ConfigFile: `{"eos_token":"$"}`}); err != nil || s.Template != nil ||
		len(s.EndIDs) != 1 || s.EndIDs[0] != '$' {
		t.Errorf("got %+v, %v", s, err)
	}
	s, err = load(map[string]string{GenerationFile: `{"do_sample":false,"temperature":2,"eos_token_id":5}`})
	if err != nil {
		t.Fatal(err)
	}
	if s.Defaults.Apply(&o); o.Temperature != 0 || s.EndIDs[0] != 5 {
		t.Errorf("got %+v, %+v", o, s)
	}
	s, err = load(map[string]string{
		GenerationFile: `{"stop_strings":["User:","\n\n"]}`, template.ConfigFile: `{"eos_token":"</s>"}`,
	})
	if want := []string{"User:", "\n\n", "</s>"}; err != nil || !slices.Equal(s.Stop, want) || len(s.EndIDs) > 0 {
		t.Errorf("got %+v, %v, want the texts %q", s, err, want)
	}
	if s, err = load(map[string]string{GenerationFile: `{"stop_strings":"User:"}`}); err != nil || len(s.Stop) != 1 {
		t.Errorf("got %+v, %v", s, err)
	}
	for text, want := range map[string]string{
		`{"stop_strings":7}`: "want a text or a list of texts", `{"stop_strings":[""]}`: "found an empty text",
		`{"eos_token_id":256}`: "want ids from 0 to 255", `{"eos_token_id":"x"}`: "want an id or a list",
		`{"temperature":-1}`: "temperature", `{"top_p":2}`: "top_p", `{"max_new_tokens":0}`: "max_new_tokens",
		`[]`: "array",
	} {
		if _, err := load(map[string]string{GenerationFile: text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := load(map[string]string{template.SourceFile: "{% if %}"}); err == nil {
		t.Error("a template with a mistake was taken")
	}
}

// FuzzSettings checks that no generation_config.json results in sampling that no sampler takes, and no
// tokenizer_config.json in a template that a chat cannot try to render.
func FuzzSettings(f *testing.F) {
	f.Add(`{}`, `{"temperature":0.5,"top_k":7,"top_p":0.9,"eos_token_id":[3,4]}`)
	f.Add(`{"eos_token":"$"}`, `{"do_sample":false,"eos_token_id":null,"max_new_tokens":1e3}`)
	f.Add(`{"chat_template":"{{ bos_token }}{% for m in messages %}{{ m.role }}{% endfor %}","bos_token":null}`, `null`)
	f.Add(`{"chat_template":[{"name":"default","template":"a"},{"name":"tool_use"}],"eos_token":{"content":"x"}}`, `{}`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, config, generation string) {
		for name, text := range map[string]string{template.ConfigFile: config, GenerationFile: generation} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Load(dir, tokenizer.Bytes())
		parsed, other := Parse([]byte(config), []byte(generation), tokenizer.Bytes(), "x")
		if (err == nil) != (other == nil) ||
			err == nil && (parsed.BOS != s.BOS || !slices.Equal(parsed.EndIDs, s.EndIDs)) {
			t.Fatalf("of files: %+v, %v; of texts: %+v, %v", s, err, parsed, other)
		}
		if err != nil {
			return
		}
		if s.Template != nil {
			// Any text or error of the template is fine.
			_, _ = s.Template.Render(t.Context(), template.Input{Messages: []template.Message{
				template.Text("user", "aye")}, BOS: s.BOS, EOS: s.EOS, AddGenerationPrompt: true})
		}
		o := generate.DefaultOptions()
		s.Defaults.Apply(&o)
		if !(o.Temperature >= 0) || o.TopK < 0 || o.MaxTokens < 1 || !(o.TopP >= 0 && o.TopP <= 1) {
			t.Errorf("got %+v", o)
		}
		for _, id := range s.EndIDs {
			if id < 0 || id > 255 {
				t.Errorf("got the id %d", id)
			}
		}
	})
}
