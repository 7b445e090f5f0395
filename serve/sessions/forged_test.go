package sessions_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/session"
)

// TestForgedNumbersAreRefused checks that a file with a correct checksum, but with a state or logits that no model
// could produce, is refused with the value and its place, and accepted without that value.
func TestForgedNumbersAreRefused(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		tensor string // tensor to set to x, "" for logits, "-" for none
		x      float32
		status int // 0: the import succeeds, and a reply after it gets 422
		want   string
	}{
		{"-", 0, 200, ""},
		{"layers.2.", math.MaxFloat32, 0, "position 8: logits: found NaN"},
		{"layers.0.diag", nan, 400, "found NaN at 1 of layers.0.diag in the state after 7 tokens, want"},
		{"layers.1.", -inf, 400, "found -Inf at 1 of layers.1."},
		{"layers.2.", inf, 400, "found +Inf at 1 of layers.2."},
		{"", nan, 400, "after 7 tokens: logits: "}, {"", inf, 400, "after 7 tokens: logits: "},
	} {
		b := generate.NewBatch(s.Model.Net, 1)
		b.Chunk = session.Chunk(s.Model.Net)
		if err := b.Feed(t.Context(), servetest.BytesOf("Call me")); err != nil {
			t.Fatal(err)
		}
		at := session.Take(b)
		forged := false
		at.State.Clone().Parts(func(p model.StatePart) {
			if c.tensor == "" || forged || !strings.HasPrefix(p.Name, c.tensor) {
				return
			}
			shape, values := p.Values()
			values[1], forged = c.x, true
			if err := at.State.Restore(p.Name, shape, values); err != nil {
				t.Fatal(err)
			}
		})
		if c.tensor == "" {
			at.Logits[1] = c.x
		} else if forged == (c.tensor == "-") {
			t.Fatalf("there is no tensor %s", c.tensor)
		}
		x, err := session.From(s.Model.Net, s.Model.Tokenizer, session.Options{}, session.Text{
			Plan: []session.Segment{{IDs: servetest.BytesOf("Call me")}}, At: at,
		})
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if err := x.Encode(&file, session.FileOptions{Signer: servetest.Signer}); err != nil {
			t.Fatal(err)
		}
		status, _, data := s.Send(http.MethodPost, "/v1/sessions/import", "", &file)
		if c.status == 0 { // large, but finite
			x := servetest.Decode[sessions.Session](t, data)
			status, _, data = s.Do(http.MethodPost, "/v1/sessions/"+x.ID+"/append", `{"text":"a"}`)
			if status == http.StatusOK {
				status, _, data = s.Do(http.MethodPost, "/v1/sessions/"+x.ID+"/generate", `{"max_tokens":9}`)
			}
		}
		if want := cmp.Or(c.status, 422); status != want ||
			!strings.Contains(string(data), c.want) {
			t.Errorf("%s: status %d: %s, want %d: %s", c.tensor, status, data, want, c.want)
		}
	}
}

// TestATokenHasOneValue checks that tokens read and written in the same segments have the same log-probabilities, digit
// by digit, in sessions and in completions: after one append, and after two of which the first ends at a multiple of
// the chunk.
func TestATokenHasOneValue(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	chunk := session.Chunk(s.Model.Net)
	text := strings.Repeat("The whale swims. ", chunk)[:chunk+20]
	want := servetest.Post[openai.Completion](s, "/v1/completions",
		fmt.Sprintf(`{"prompt":%q,"max_tokens":8,"temperature":0,"logprobs":0,"ignore_eos":true}`, text))
	for _, parts := range [][]string{{text}, {text[:chunk], text[chunk:]}} {
		x := servetest.Post[sessions.Session](s, "/v1/sessions", `{}`)
		for _, part := range parts {
			servetest.Post[sessions.Session](s, "/v1/sessions/"+x.ID+"/append", fmt.Sprintf(`{"text":%q}`, part))
		}
		got := servetest.Post[sessions.Reply](s, "/v1/sessions/"+x.ID+"/generate",
			`{"max_tokens":8,"temperature":0,"logprobs":true,"ignore_eos":true}`)
		if a, b := servetest.Quoted(t, got.Logprobs), servetest.Quoted(t, want.Choices[0].Logprobs.Values); a != b {
			t.Errorf("after %d requests the session has %s, completions %s", len(parts), a, b)
		}
	}
	x := servetest.Post[sessions.Session](s, "/v1/sessions", fmt.Sprintf(`{"text":%q}`, text[:chunk]))
	scored := servetest.Post[struct{ Data []sessions.Ending }](s, "/v1/sessions/"+x.ID+"/score",
		fmt.Sprintf(`{"endings":[%q]}`, text[chunk:]))
	echo := servetest.Post[openai.Completion](s, "/v1/completions",
		fmt.Sprintf(`{"prompt":%q,"max_tokens":0,"logprobs":0,"echo":true}`, text))
	a := servetest.Quoted(t, scored.Data[0].Logprobs)
	if b := servetest.Quoted(t, echo.Choices[0].Logprobs.Values[chunk:]); a != b {
		t.Errorf("the ending has %s, completions %s", a, b)
	}
}
