package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/anthropic"
	"github.com/hippo-ssm/hippo/serve/ollama"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/sessions"
)

// TestRepliesEndWhereChatsDo checks that a reply ends before a stop text of the model in every interface, as in a chat
// without a server, also together with stop strings of the request, and continues if the request ignores ends.
func TestRepliesEndWhereChatsDo(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	bias, biases := map[int32]float32{}, map[string]int{} // letters only
	for id := range int32(256) {
		if id < 'a' || id > 'z' {
			bias[id], biases[fmt.Sprint(id)] = -100, -100
		}
	}
	alone := func() string {
		t.Helper()
		var text strings.Builder
		o := generate.Options{MaxTokens: 40}
		o.LogitBias, o.Temperature, o.Seed = bias, 1, 4
		err := chat.New(s.Model.Net, s.Model.Tokenizer, s.Model.Settings).Reply(t.Context(), "Call me", o,
			func(piece string) error {
				text.WriteString(piece)
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	whole := alone()
	s.Model.Settings.Stop = []string{"!", whole[17:20]}
	want := alone()
	if !strings.HasPrefix(whole, want) || len(want) == 0 || len(want) > 17 {
		t.Fatalf("alone the reply is %q, and with an end at %q it is %q", whole, whole[17:20], want)
	}
	sampling := `"seed":4,"temperature":1,"top_k":0,"logit_bias":` + servetest.Quoted(t, biases)
	const said = `"messages":[{"role":"user","content":"Call me"}],`
	body := "{" + said + `"max_tokens":40,` + sampling
	check := func(what, got, finish string) {
		t.Helper()
		if got != want || finish != "stop" {
			t.Errorf("%s: the reply is %q (%s), want %q", what, got, finish, want)
		}
	}
	a := servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions", body+"}").Choices[0]
	check("a chat", *a.Message.Content, *a.Finish)
	a = servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions", body+`,"stop":["?"]}`).Choices[0]
	check("with a stop string", *a.Message.Content, *a.Finish)
	streamed, finish := "", ""
	for _, e := range servetest.Events[openai.ChatCompletion](s, "/v1/chat/completions", body+`,"stream":true}`) {
		if d := e.Choices[0].Delta; d.Content != nil {
			streamed += *d.Content
		}
		if f := e.Choices[0].Finish; f != nil {
			finish = *f
		}
	}
	check("a stream", streamed, finish)
	r := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"Call me","max_output_tokens":40,`+sampling+"}")
	if check("a response", r.Output[0].Content[0].Text, "stop"); r.Status != openai.ResponseCompleted {
		t.Errorf("the response is %s", r.Status)
	}
	n := servetest.Post[anthropic.Message](s, "/v1/messages", body+"}")
	if check("a message", *n.Content[0].Text, "stop"); *n.StopReason != "end_turn" || n.StopSequence != nil {
		t.Errorf("the message ends by %s", *n.StopReason)
	}
	messages := servetest.Decode[[]reply.Message](t, []byte(`[{"role":"user","content":"Call me"}]`))
	prompt, err := reply.ChatText(t.Context(), s.Model, "", messages)
	if err != nil {
		t.Fatal(err)
	}
	text := `{"max_tokens":40,"prompt":` + servetest.Quoted(t, prompt) + "," + sampling
	c := servetest.Post[openai.Completion](s, "/v1/completions", text+"}").Choices[0]
	check("a completion", c.Text, *c.Finish)
	if c = servetest.Post[openai.Completion](s, "/v1/completions",
		text+`,"ignore_eos":true}`).Choices[0]; c.Text != whole {
		t.Errorf("without ends the reply is %q, want %q", c.Text, whole)
	}
	x := servetest.Post[sessions.Session](s, "/v1/sessions", "{"+strings.TrimSuffix(said, ",")+"}")
	g := servetest.Post[sessions.Reply](s, "/v1/sessions/"+x.ID+"/generate", `{"max_tokens":40,`+sampling+"}")
	check("a session", g.Text, *g.Finish)

	// Ollama has no logit_bias, so stop at a text that every reply has at first.
	s.Model.Settings.Stop = nil
	const ask = "{" + said + `"stream":false,"options":{"num_predict":40,"seed":4}}`
	free := servetest.Post[ollama.Response](s, "/api/chat", ask).Message.Content
	s.Model.Settings.Stop = []string{string([]rune(free)[9:11])}
	want, _, _ = strings.Cut(free, s.Model.Settings.Stop[0])
	o := servetest.Post[ollama.Response](s, "/api/chat", ask)
	check("Ollama's chat", o.Message.Content, o.Reason)
	_, _, data := s.Do(http.MethodPost, "/api/show", `{"model":"tiny"}`)
	if !strings.Contains(string(data), "stop ") {
		t.Errorf("the model is shown as %s", data)
	}
}
