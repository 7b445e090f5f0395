package reply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// weather is a list of one function.
const weather = `[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties":
	{"city": {"type": "string"}}}}}]`

// toolChat returns a chat in the form of a family, with a model of bytes whose replies are all the given text.
func toolChat(t *testing.T, form, text string) (*chat.Chat, generate.Options) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "openai", "testdata", "forms", form+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	tok, settings := tokenizer.Bytes(), &chat.Settings{}
	if err := settings.SetTemplate(string(source), tok); err != nil {
		t.Fatal(err)
	}
	settings.Stop = nil
	c := chat.New(toymodel.New(t, "h3", 256), tok, settings)
	if c.Tools, err = ChatTools([]byte(weather), settings, tok); err != nil {
		t.Fatal(err)
	}
	g, err := constrain.Regexp(strings.ReplaceAll(text, "\n", `\n`))
	if err != nil {
		t.Fatal(err)
	}
	o := generate.DefaultOptions()
	if o.Constraint, err = constrain.New(g, tok, constrain.NewVocabulary(tok, nil)); err != nil {
		t.Fatal(err)
	}
	return c, o
}

// TestChatTools checks that calls are not part of a reply's text, and that their results become tool messages with
// their ids, after which the model replies again. An error of a call removes the message. Without results, calls end
// the reply.
func TestChatTools(t *testing.T) {
	const reply = "x</think>\n\nI look\n<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n" +
		"</function>\n</tool_call>"
	c, o := toolChat(t, "qwen3_5", reply)
	var text, thought strings.Builder
	emit := func(s string) error {
		text.WriteString(s)
		return nil
	}
	c.Thought = func(s string) error {
		thought.WriteString(s)
		return nil
	}
	var told []string
	c.Tools.Told = func(call chat.Call) error {
		told = append(told, call.Name+call.Arguments)
		return nil
	}
	if err := c.Reply(t.Context(), "Rain?", o, emit); err != nil {
		t.Fatal(err)
	}
	last := c.Messages()[1]
	calls := Message{last}.Calls()
	if fmt.Sprint(told) != `[weather{"city": "Oslo"}]` || len(c.Messages()) != 2 || len(calls) != 1 ||
		text.String() != "I look\n" || thought.String() != "x" || last.Content() != "I look\n" {
		t.Errorf("told %q of %q and %q, the last message %v", told, text.String(), thought.String(), last)
	}
	stop, before := errors.New("no more"), len(c.Messages())
	c.Tools.Do = func(_ context.Context, call chat.Call) (string, error) {
		switch all := c.Messages(); len(told) {
		case 2:
			return "wet", nil
		default:
			result := all[len(all)-2]
			data, err := result.MarshalJSON()
			asked := Message{all[len(all)-3]}.Calls()
			if err != nil || result.Role() != "tool" || result.Content() != "wet" || len(asked) != 1 ||
				!strings.Contains(string(data), asked[0].ID) {
				t.Errorf("the model has %s, %v, for %v", data, err, asked)
			}
			return "", stop
		}
	}
	if err := c.Reply(t.Context(), "And now?", o, emit); !errors.Is(err, stop) || len(told) != 3 {
		t.Errorf("told %q, %v", told, err)
	}
	if len(c.Messages()) != before {
		t.Errorf("%d messages, want %d", len(c.Messages()), before)
	}
	c.Tools.Do = func(context.Context, chat.Call) (string, error) { return "wet", nil }
	err := c.Reply(t.Context(), "Always?", o, emit)
	if err == nil || !strings.Contains(err.Error(), "found calls in 32 replies in a row") {
		t.Errorf("a model that calls for ever: %v", err)
	}
	plain, o := toolChat(t, "qwen3_5", "x</think>\n\nNo calls")
	plain.Tools.Do = c.Tools.Do
	if err := plain.Reply(t.Context(), "Rain?", o, emit); err != nil || plain.Messages()[1].Role() != "assistant" {
		t.Errorf("no calls: %v", err)
	}
}

// TestChatToolsProblems checks that invalid tools are refused as by the server.
func TestChatToolsProblems(t *testing.T) {
	tok := tokenizer.Bytes()
	for source, c := range map[string][2]string{
		"{{ messages }}":         {weather, "the chat template of the model knows no tools"},
		"{{ tools }}":            {weather, "does not tell in what form the model calls them"},
		"{{ tools }}<TOOLCALL>":  {`[{"function": {"name": "a b"}}]`, `found the name "a b"`},
		"{{ tools}}[TOOL_CALLS]": {"{", "want a list of functions"},
	} {
		settings := &chat.Settings{}
		if err := settings.SetTemplate(source, tok); err != nil {
			t.Fatal(err)
		}
		if _, err := ChatTools([]byte(c[0]), settings, tok); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want an error with %q", source, err, c[1])
		}
	}
}
