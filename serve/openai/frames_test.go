package openai

import (
	"encoding/json"
	"testing"

	"github.com/hippo-ssm/hippo/serve/request"
	"pgregory.net/rapid"

	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
)

// TestFramesAreThoseOfJSON checks that the events of a stream equal those of encoding/json for any text.
func TestFramesAreThoseOfJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,12}`),
			rapid.SampledFrom([]string{"", "\xff\xe2\x82", "<b>&\u2028\x00\x7f", `"choices":[]`, `\u00e9`, "日本"}))
		some := func(name string) *string {
			if rapid.Bool().Draw(t, name+" is there") {
				return new(text.Draw(t, name))
			}
			return nil
		}
		plain := func(name string) string {
			if s := some(name); s != nil {
				return *s
			}
			return ""
		}
		usage := rapid.Bool().Draw(t, "usage")
		same := func(got []byte, want any) {
			if wanted := string(request.SSE(want)); string(got) != wanted {
				t.Fatalf("event\n%s, want\n%s", got, wanted)
			}
		}

		frame := Completion{ID: text.Draw(t, "id"), Object: "text_completion", Model: text.Draw(t, "model")}
		choice := completionChoice{Text: text.Draw(t, "text"), Index: rapid.IntRange(0, 999).Draw(t, "index")}
		choice.Finish = some("end")
		if rapid.Bool().Draw(t, "logprobs") {
			choice.Logprobs = newLogprobs()
			choice.Logprobs.Tokens = append(choice.Logprobs.Tokens, text.Draw(t, "token"))
		}
		frames := frame.frames(usage)
		for range 2 {
			frame.Choices = []completionChoice{choice}
			same(frames.of(&choice), frame.event(usage))
			choice.Text += text.Draw(t, "more")
		}

		chat := ChatCompletion{ID: frame.ID, Object: "chat.completion.chunk", Created: 1, Model: frame.Model}
		said := chatChoice{Index: choice.Index, Finish: choice.Finish, Delta: &chatMessage{
			Role: plain("role"), Content: some("content"), Refusal: some("refusal"), Reasoning: plain("thought"),
		}}
		if rapid.Bool().Draw(t, "chat logprobs") {
			said.Logprobs = &chatLogprobs{Content: []chatLogprob{{Token: "a"}}}
		}
		whole := chat
		whole.Choices = []chatChoice{said}
		same(chat.frames(usage).of(&said), whole.event(usage))
	})
}

// TestFramesTakeNoMemory checks that an event of a token allocates nothing.
func TestFramesTakeNoMemory(t *testing.T) {
	frames, choice := Completion{}.frames(false), completionChoice{Text: " whale"}
	if n := testing.AllocsPerRun(2000, func() { frames.of(&choice) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if !json.Valid(frames.of(&choice)[len("data: "):]) {
		t.Errorf("found %q", frames.of(&choice))
	}
}
