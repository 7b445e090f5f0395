package chat

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestThinkingAfter checks that the end of the prompt determines where a reply starts.
func TestThinkingAfter(t *testing.T) {
	for _, c := range []struct {
		source, prompt string
		want           Thinking
	}{
		{"{{ m.content }}", "a <think>", Answers},
		{"<thinking>", "a <thinking>", Answers},
		{"<think>", "a", MayThink},
		{"<think>", "a<think>\n\n</think>\n\n", MayThink},
		{"<think>", "a<think>\n", Thinks},
		{"'Assistant: <think'", "Assistant: <think", thinkMore},
	} {
		if got := ThinkingAfter(c.source, c.prompt); got != c.want {
			t.Errorf("%q after %q: got %d, want %d", c.source, c.prompt, got, c.want)
		}
	}
}

// TestThoughts checks that reasoning is split from the text after it, however a reply is cut into pieces.
func TestThoughts(t *testing.T) {
	for _, c := range []struct {
		at                  Thinking
		text, thought, rest string
	}{
		{Answers, "<think>a</think>b", "", "<think>a</think>b"},
		{MayThink, " \n<think>\na</b</think>\n\nc <think>", "a</b", "c <think>"},
		{MayThink, " <thing", "", " <thing"},
		{Thinks, "\na\n</think> b", "a\n", "b"},
		{Thinks, "a</thi", "a</thi", ""},
		{thinkMore, ">\na</think>b", "a", "b"},
		{thinkMore, "", "", ""},
	} {
		for size := 1; size < len(c.text)+2; size++ {
			s := NewThoughts(c.at)
			thought, rest, left := "", "", c.text
			for left != "" {
				n := min(size, len(left))
				a, b := s.Push(left[:n], false)
				thought, rest, left = thought+a, rest+b, left[n:]
			}
			a, b := s.Push("", true)
			if thought, rest = thought+a, rest+b; thought != c.thought || rest != c.rest {
				t.Errorf("%q in pieces of %d: got %q, %q, want %q, %q", c.text, size, thought, rest, c.thought, c.rest)
			}
		}
	}
}

// TestThoughtOfReply checks that reasoning is passed on separately and is a field of its own in the message, and that
// it is text without Thought.
func TestThoughtOfReply(t *testing.T) {
	const thinks = source + "{% if add_generation_prompt %}<think>{% endif %}"
	c := newChat(t, thinks)
	c.settings.Source = thinks
	plain := say(t, c, "Call me")
	c = newChat(t, thinks)
	c.settings.Source = thinks
	var thought strings.Builder
	c.Thought = func(text string) error {
		thought.WriteString(text)
		return nil
	}
	if got := say(t, c, "Call me"); got != "" || strings.TrimLeft(plain, " \n") != thought.String() {
		t.Errorf("got %q and the thoughts %q, want nothing and %q", got, thought.String(), plain)
	}
	data, err := json.Marshal(c.Messages()[1])
	want, _ := json.Marshal(map[string]string{"reasoning_content": thought.String()})
	if err != nil || !strings.Contains(string(data), strings.Trim(string(want), "{}")) {
		t.Errorf("the message is %s, %v, want one with %s", data, err, want)
	}
}
