package reply

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/chat"
)

// TestSplit checks that thoughts, text and calls are separated however a reply is cut into pieces.
func TestSplit(t *testing.T) {
	forms := map[callStyle]*callForm{}
	for i := range callForms {
		forms[callForms[i].style] = &callForms[i]
	}
	granite := &callForms[slices.IndexFunc(callForms, func(f callForm) bool { return f.open == "<|tool_call|>" })]
	var typed tool
	typed.Function.Name = "f"
	typed.Function.Parameters = json.RawMessage(`{"properties":{"s":{"type":"string"},"n":{"type":"integer"}}}`)
	for _, c := range []struct {
		name, text, reasoning, content, calls string
		d                                     Dialog
	}{
		{"plain", "a <b> é", "", "a <b> é", "", Dialog{}},
		{"thoughts", "\n<think>\nhm </thin\n</think>\n\nyes", "hm </thin\n", "yes", "",
			Dialog{Thinking: chat.MayThink}},
		{"no thoughts", " <thing>", "", " <thing>", "", Dialog{Thinking: chat.MayThink}},
		{"begun", "hm</think>yes", "hm", "yes", "", Dialog{Thinking: chat.Thinks}},
		{"half a mark", "> hm</think>yes", "hm", "yes", "",
			Dialog{Thinking: chat.ThinkingAfter("<think", "<think")}},
		{"thoughts that are cut", "hm</thi", "hm</thi", "", "", Dialog{Thinking: chat.Thinks}},
		{"objects", "Sure.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\"}}\n</tool_call>\n" +
			`<tool_call>{"name":"g","arguments":"{\"b\":1}"}</tool_call>`,
			"", "Sure.\n", `f{"a": "</tool_call>"} g{"b":1} `, Dialog{Calls: forms[callObjects]}},
		{"one call", "Sure.<tool_call>{\"name\": \"f\"}</tool_call> or <tool_call>{\"name\": \"g\"}</tool_call>.", "",
			"Sure.", "f{} ", Dialog{Calls: forms[callObjects], single: true}},
		{"one call of a list", `[TOOL_CALLS][{"name":"f"},{"name":"g"}]`, "", "", "f{} ",
			Dialog{Calls: forms[callList], single: true}},
		{"no object", "<tool_call>nothing</tool_call>!", "", "<tool_call>nothing</tool_call>!", "",
			Dialog{Calls: forms[callObjects]}},
		{"an object that is cut", `<tool_call>{"name":`, "", `<tool_call>{"name":`, "",
			Dialog{Calls: forms[callObjects]}},
		{"a list", `<|tool_call|>[{"name":"f","arguments":{"a":[1]}},{"name":"g","parameters":{}}]`, "", "",
			`f{"a":[1]} g{} `, Dialog{Calls: granite}},
		{"python", `<|tool_call_start|>[f(a=1, b='x"\'é', c=[True, None, {'k': -2.5}]), g()]<|tool_call_end|>Done`,
			"", "Done",
			`f{"a": 1, "b": "x\"'é", "c": [true, null, {"k": -2.5}]} g{} `, Dialog{Calls: forms[callPython]}},
		{"JSON for python", `<|tool_call_start|>[{"name": "f", "arguments": {"a": 1}, "id": "x"}]<|tool_call_end|>`,
			"", "", `f{"a": 1} `, Dialog{Calls: forms[callPython]}},
		{"tags", "<tool_call>\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=n>\n12\n</parameter>\n" +
			"</function>\n</tool_call>",
			"", "", `f{"s": "12", "n": 12} `, Dialog{Calls: forms[callTags], tools: []tool{typed}}},
		{"lines", "I look.\n<function_calls>f(a=true, b=\"x</function_calls>\", c={\"k\": [null]})\ng()\n" +
			"</function_calls>Done",
			"", "I look.\nDone", `f{"a": true, "b": "x\u003c/function_calls\u003e", "c": {"k": [null]}} g{} `,
			Dialog{Calls: forms[callLines]}},
		{"a line that is cut", "<function_calls>f(a=1)\ng(", "", "<function_calls>f(a=1)\ng(", "",
			Dialog{Calls: forms[callLines]}},
		{"lines without an end", "<function_calls>f(a=1)\ng()", "", "", `f{"a": 1} g{} `,
			Dialog{Calls: forms[callLines]}},
		{"marked", "Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>" +
			`{"a": "<|tool_call_end|>"}<|tool_call_end|><|tool_call_begin|>g:1 <|tool_call_argument_begin|> {}` +
			"<|tool_call_end|><|tool_calls_section_end|>", "", "Hm.", `f{"a": "<|tool_call_end|>"} g{} `,
			Dialog{Calls: forms[callMarked]}},
		{"marked without a name", "<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{}" +
			"<|tool_call_end|><|tool_calls_section_end|>!", "",
			"<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{}<|tool_call_end|>" +
				"<|tool_calls_section_end|>!", "", Dialog{Calls: forms[callMarked]}},
	} {
		for size := 1; size < len(c.text)+1; size += 1 + size/3 {
			d := c.d
			s := d.Split()
			var all Delta
			for rest := c.text; rest != ""; {
				n := min(size, len(rest))
				all.Add(s.Push(rest[:n], n == len(rest)))
				rest = rest[n:]
			}
			calls := ""
			for _, call := range all.Calls {
				calls += fmt.Sprint(call.Function.Name, call.Function.Arguments, " ")
			}
			if all.Reasoning != c.reasoning || all.Content != c.content || calls != c.calls {
				t.Errorf("%s in pieces of %d: got %q, %q, %q, want %q, %q, %q", c.name, size, all.Reasoning,
					all.Content, calls, c.reasoning, c.content, c.calls)
			}
		}
	}
}
