package serve

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// markedTemplate is a template as published models have it, with tokens of its own around each message.
const markedTemplate = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// corpus is what the tokenizers of tests learn from.
var corpus = strings.Repeat("Call me Ishmael. Some years ago, never mind how long precisely, having little money, "+
	"die Walfänger fuhren über das Meer, киты плавали вокруг. ", 8)

// byteBPE is a byte-level BPE tokenizer.
func byteBPE(t testing.TB) tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.TrainBPE(strings.NewReader(corpus), tokenizer.TrainOptions{
		VocabSize: 400, Specials: []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// sentencePieces is a tokenizer of SentencePiece's kind, with a space before every text.
func sentencePieces(t testing.TB) tokenizer.Tokenizer {
	t.Helper()
	v := tokenizer.Vocabulary{Model: "llama", BOS: 1, EOS: 2}
	add := func(text string, kind int32) {
		v.Tokens, v.Types = append(v.Tokens, text), append(v.Types, kind)
		v.Scores = append(v.Scores, -float32(len(v.Tokens)))
	}
	add("<unk>", 2)
	add("<s>", 3)
	add("</s>", 3)
	add("<|im_start|>", 4)
	add("<|im_end|>", 4)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), 6)
	}
	for _, piece := range strings.Fields("▁m er il ll ▁mer e r m i l n o ▁ user assistant ess ag on is a s t") {
		add(piece, 1)
	}
	tok, err := tokenizer.FromGGUF(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// tokenized is a server of a model with a tokenizer and a chat template, and a store in a folder.
func tokenized(t testing.TB, tok tokenizer.Tokenizer, folder string) *site {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DState, c.DInner = 16, tok.VocabSize(), "mamba,attention", 2, 8, 24
	net, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	net.Init(1)
	parsed, err := template.Parse(markedTemplate)
	if err != nil {
		t.Fatal(err)
	}
	o := store.Options{Model: net, Identity: session.Identify(net, tok), Memory: 64 << 20}
	if folder != "" {
		o.Bucket = store.Folder(filepath.Join(folder, "texts"))
	}
	texts, err := store.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	runner := session.NewScheduler(net, session.SchedulerOptions{Waiting: 1 << 20})
	t.Cleanup(runner.Close)
	m := NewModel(ModelOptions{
		Name: "tiny", Net: net, Tokenizer: tok, Runner: runner, Texts: texts,
		Settings: &chat.Settings{Source: markedTemplate, Template: parsed},
	})
	t.Cleanup(m.Close)
	return siteOf(t, Options{Store: folder}, m)
}

// TestChatReadsNothingTwice: from the second turn on a conversation that is sent again is read from the last multiple
// of the chunk in what is the same, however long it is: fewer than a chunk of tokens, and the new ones. Each answer
// says so. What is drawn is what a server without a store draws.
func TestChatReadsNothingTwice(t *testing.T) {
	for name, tok := range map[string]tokenizer.Tokenizer{"bytes": byteBPE(t), "pieces": sentencePieces(t)} {
		s, other := tokenized(t, tok, ""), tokenized(t, tok, "")
		other.model.texts = nil
		messages := []map[string]string{{"role": "system", "content": strings.Repeat("Never mind how long. ", 10)}}
		before := 0
		for turn := range 5 {
			messages = append(messages, map[string]string{
				"role": "user", "content": fmt.Sprint("Reise ", turn, ": über das Meer, кит"),
			})
			body := `{"seed":3,"max_tokens":90,"messages":` + quoted(t, messages) + `}`
			status, h, data := s.do(http.MethodPost, "/v1/chat/completions", body)
			if status != http.StatusOK {
				t.Fatalf("%s: %d %s", name, status, data)
			}
			a := decode[chatAnswer](t, data)
			want := post[chatAnswer](other, "/v1/chat/completions", body)
			reply := *a.Choices[0].Message.Content
			if reply != *want.Choices[0].Message.Content {
				t.Fatalf("%s: turn %d draws %q, want %q", name, turn, reply, *want.Choices[0].Message.Content)
			}
			u := a.Usage
			read := u.Prompt - u.Details.Cached
			if fresh := u.Prompt - before; turn > 0 && read >= fresh+session.Chunk(s.model.net) {
				t.Errorf("%s: turn %d reads %d tokens of %d, of which %d are new: %s", name, turn, read, u.Prompt,
					fresh, h.Get(cacheHeader))
			}
			if told := fmt.Sprintf("cached=%d, read=%d, miss=", u.Details.Cached, read); turn > 0 &&
				(!strings.HasPrefix(h.Get(cacheHeader), told) ||
					!strings.HasPrefix(u.Details.Miss, "new from token ")) {
				t.Errorf("%s: turn %d says %q and %q", name, turn, h.Get(cacheHeader), u.Details.Miss)
			}
			messages = append(messages, map[string]string{"role": "assistant", "content": reply})
			s.model.rereads.wait()
			next, err := s.model.nextBegins(t.Context(), inputOf(unquoted[[]message](t, quoted(t, messages))))
			if err != nil {
				t.Fatal(err)
			}
			before = len(next)
		}
	}
}

// TestChatSaysWhatMissed: an edited message, and another system message, are told as what they are.
func TestChatSaysWhatMissed(t *testing.T) {
	s := tokenized(t, byteBPE(t), "")
	ask := func(system, user string) string {
		status, h, data := s.do(http.MethodPost, "/v1/chat/completions", fmt.Sprintf(`{"max_tokens":1,"messages":[
			{"role":"system","content":%q},{"role":"user","content":%q}]}`, system, user))
		if status != http.StatusOK {
			t.Fatal(string(data))
		}
		s.model.rereads.wait()
		return h.Get(cacheHeader)
	}
	long := strings.Repeat("some years ago ", 30)
	for _, c := range []struct{ system, user, want string }{
		{long, long, "nothing of it is stored"},
		{long, long + "and more", "edited at token"},
		{long, "none" + long, "edited at token"},
		{"x" + long, long, "the beginning differs"},
		{long, long, ""},
	} {
		got := ask(c.system, c.user)
		if !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "miss") {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestServerGoesOnAfterRestart: a second server on the same folder has what the first one read.
func TestServerGoesOnAfterRestart(t *testing.T) {
	dir := t.TempDir()
	tok := byteBPE(t)
	body := `{"seed":3,"max_tokens":9,"messages":[{"role":"user","content":` + quoted(t, corpus) + `}]}`
	s := tokenized(t, tok, dir)
	a := post[chatAnswer](s, "/v1/chat/completions", body)
	s.model.Close()
	if err := s.model.texts.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := post[chatAnswer](tokenized(t, tok, dir), "/v1/chat/completions", body)
	if b.Usage.Details.Cached != a.Usage.Prompt || *b.Choices[0].Message.Content != *a.Choices[0].Message.Content {
		t.Errorf("after the restart: %+v, want all of it cached, and %q", b, *a.Choices[0].Message.Content)
	}
}
