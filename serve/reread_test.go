package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

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
			s.model.rereads.all.Wait()
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
		s.model.rereads.all.Wait()
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
