package reply

import (
	"encoding/json"
	"testing"

	"github.com/hippo-ssm/hippo/chat"
)

// FuzzReply checks that any reply, in every form of calls, gives the same result however it is cut, and that the
// arguments of calls are JSON objects.
func FuzzReply(f *testing.F) {
	for i, text := range []string{
		"<|tool_call_start|>[f(a=1, b='x', c=[True, {'k': None}]), g()]<|tool_call_end|>",
		"<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
		"<function_calls>f(a=true, b=[{\"k\": null}])\ng()</function_calls>",
		"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}" +
			"<|tool_call_end|><|tool_calls_section_end|>",
		`<TOOLCALL>[{"name":"f","arguments":{}}]</TOOLCALL>`,
		`<tool_calls>[{"name":"f","arguments":"{}"}]</tool_calls>`,
		`<|tool_call|>[{"name":"f","arguments":{"a":"]"}}]`, `[TOOL_CALLS][{"name":"f","parameters":{}}]`,
		"<think>hm</think>\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>x</tool_call>",
	} {
		f.Add(text, uint8(i), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, form, size uint8) {
		if len(text) > 1<<12 {
			return
		}
		d := &Dialog{Calls: &callForms[int(form)%len(callForms)], Thinking: chat.Thinking(form % 4)}
		tell := func(size int) (all Delta) {
			s := d.Split()
			for rest := text; ; {
				n := min(size, len(rest))
				all.Add(s.Push(rest[:n], n == len(rest)))
				if rest = rest[n:]; rest == "" {
					return all
				}
			}
		}
		whole, cut := tell(len(text)+1), tell(1+int(size))
		if whole.Reasoning != cut.Reasoning {
			t.Errorf("whole: %q, in pieces: %q", whole.Reasoning, cut.Reasoning)
		}
		for _, c := range append(whole.Calls, cut.Calls...) {
			var arguments map[string]json.RawMessage
			if err := json.Unmarshal([]byte(c.Function.Arguments), &arguments); err != nil || c.Function.Name == "" {
				t.Errorf("%q: %v in %+v", text, err, c)
			}
		}
	})
}
