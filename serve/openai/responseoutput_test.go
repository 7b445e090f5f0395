package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestResponseOutputInPieces checks that however a reply is cut into pieces, its thoughts, texts and calls form the
// same items, with the log-probabilities of the message only, and that the events report each of them once.
func TestResponseOutputInPieces(t *testing.T) {
	const source = "{# <think> <tool_call> tools #}{{ messages[0].content }}"
	parsed, err := template.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	m := host.NewModel(host.ModelOptions{
		Net: toymodel.New(t, "h3,attention,mamba", 256), Tokenizer: tokenizer.Bytes(),
		Settings: &chat.Settings{Source: source, Template: parsed},
	})
	d, _, err := reply.Compose(t.Context(), m, "input", &reply.Chat{
		Messages: []reply.Message{reply.NewMessage("user", "a")},
		Tools:    reply.ToolRequest{Tools: []json.RawMessage{json.RawMessage(`{"function":{"name":"f"}}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const whole = "<think>\nhm é</think>\n\nyes é <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}" +
		"\n</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>"
	first := ""
	for size := 1; size < len(whole)+1; size += 1 + size/2 {
		q := &responding{dialog: d, job: &reply.Job{Model: m, Top: 0}}
		var kinds []string
		said := map[string]string{}
		w := newOutputWriter(q, func(e responseEvent) {
			if e.Delta != nil {
				said[e.Type] += *e.Delta
				return
			}
			kinds = append(kinds, strings.TrimPrefix(e.Type, "response."))
		})
		w.begin()
		for rest := whole; rest != ""; {
			n := min(size, len(rest))
			p := reply.Piece{Text: rest[:n]}
			for _, b := range []byte(p.Text) {
				p.Tokens = append(p.Tokens, host.Token{ID: int32(b)})
			}
			if rest = rest[n:]; rest == "" {
				p.End = "text"
			}
			w.add(p)
		}
		d := q.object.reply()
		if d.Reasoning != "hm é" || d.Content != "yes é " || len(d.Calls) != 2 || d.Calls[0].Function.Name != "f" ||
			d.Calls[1].Function.Arguments != "{}" || len(q.object.Output) != 4 {
			t.Fatalf("in pieces of %d: got %s", size, request.JSON(q.object.Output))
		}
		if said["response.reasoning_text.delta"] != "hm é" || said["response.output_text.delta"] != "yes é " ||
			said["response.function_call_arguments.delta"] != `{"a": 1}{}` {
			t.Errorf("in pieces of %d: the deltas are %q", size, said)
		}
		all := strings.Join(kinds, " ")
		if first == "" {
			first = all
			if n := len(*q.object.Output[1].Content[0].Logprobs); n != len("yes é ") {
				t.Errorf("%d log-probabilities, want %d", n, len("yes é "))
			}
		}
		if all != first {
			t.Errorf("in pieces of %d: the events are %s, want %s", size, all, first)
		}
	}
}
