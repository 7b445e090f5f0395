package host_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/serve/reply"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestChatReadsNothingTwice checks that from the second turn on, a conversation that is sent again is read from the
// last multiple of the chunk in the common text, however long it is: less than a chunk of tokens, and the new ones.
// Each answer reports that. Replies equal those of a server without a store.
func TestChatReadsNothingTwice(t *testing.T) {
	for name, tok := range map[string]tokenizer.Tokenizer{"bytes": servetest.ByteBPE(t),
		"pieces": servetest.SentencePieces(t)} {
		s, other := servetest.Tokenized(t, tok, ""), servetest.Tokenized(t, tok, "")
		other.Model.Texts = nil
		messages := []map[string]string{{"role": "system", "content": strings.Repeat("Never mind how long. ", 10)}}
		before := 0
		for turn := range 5 {
			messages = append(messages, map[string]string{
				"role": "user", "content": fmt.Sprint("Reise ", turn, ": über das Meer, кит"),
			})
			body := `{"seed":3,"max_tokens":90,"messages":` + servetest.Quoted(t, messages) + `}`
			status, h, data := s.Do(http.MethodPost, "/v1/chat/completions", body)
			if status != http.StatusOK {
				t.Fatalf("%s: %d %s", name, status, data)
			}
			a := servetest.Decode[openai.ChatCompletion](t, data)
			want := servetest.Post[openai.ChatCompletion](other, "/v1/chat/completions", body)
			said := *a.Choices[0].Message.Content
			if said != *want.Choices[0].Message.Content {
				t.Fatalf("%s: turn %d draws %q, want %q", name, turn, said, *want.Choices[0].Message.Content)
			}
			u := a.Usage
			read := u.Prompt - u.Details.Cached
			if fresh := u.Prompt - before; turn > 0 && read >= fresh+session.Chunk(s.Model.Net) {
				t.Errorf("%s: turn %d reads %d tokens of %d, of which %d are new: %s", name, turn, read, u.Prompt,
					fresh, h.Get(host.CacheHeader))
			}
			if told := fmt.Sprintf("cached=%d, read=%d, miss=", u.Details.Cached, read); turn > 0 &&
				(!strings.HasPrefix(h.Get(host.CacheHeader), told) ||
					!strings.HasPrefix(u.Details.Miss, "new from token ")) {
				t.Errorf("%s: turn %d says %q and %q", name, turn, h.Get(host.CacheHeader), u.Details.Miss)
			}
			messages = append(messages, map[string]string{"role": "assistant", "content": said})
			host.WaitAhead(s.Model)
			next, err := host.NextBegins(s.Model, t.Context(),
				reply.InputOf(servetest.Unquoted[[]reply.Message](t, servetest.Quoted(t, messages))))
			if err != nil {
				t.Fatal(err)
			}
			before = len(next)
		}
	}
}

// TestChatSaysWhatMissed checks that an edited message, and another system message, are reported as cache misses.
func TestChatSaysWhatMissed(t *testing.T) {
	s := servetest.Tokenized(t, servetest.ByteBPE(t), "")
	ask := func(system, user string) string {
		status, h, data := s.Do(http.MethodPost, "/v1/chat/completions", fmt.Sprintf(`{"max_tokens":1,"messages":[
			{"role":"system","content":%q},{"role":"user","content":%q}]}`, system, user))
		if status != http.StatusOK {
			t.Fatal(string(data))
		}
		host.WaitAhead(s.Model)
		return h.Get(host.CacheHeader)
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

// TestServerGoesOnAfterRestart checks that a second server on the same folder has the texts that the first one read.
func TestServerGoesOnAfterRestart(t *testing.T) {
	dir := t.TempDir()
	tok := servetest.ByteBPE(t)
	body := `{"seed":3,"max_tokens":9,"messages":[{"role":"user","content":` + servetest.Quoted(t, servetest.Corpus) +
		`}]}`
	s := servetest.Tokenized(t, tok, dir)
	a := servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions", body)
	s.Model.Close()
	if err := s.Model.Texts.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := servetest.Post[openai.ChatCompletion](servetest.Tokenized(t, tok, dir), "/v1/chat/completions", body)
	if b.Usage.Details.Cached != a.Usage.Prompt || *b.Choices[0].Message.Content != *a.Choices[0].Message.Content {
		t.Errorf("after the restart: %+v, want all of it cached, and %q", b, *a.Choices[0].Message.Content)
	}
}
