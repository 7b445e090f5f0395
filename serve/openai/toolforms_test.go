package openai_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/reply"
)

// publishedForms are families whose chat templates have different forms of calls and reasoning. The templates, files of
// testdata/forms, were written for these tests in the shape of the published ones.
var publishedForms = []struct {
	name, prompt              string // of askWeather
	reply, reasoning, content string
	calls                     string
}{
	{
		name: "qwen3_5",
		prompt: "<|im_start|>system\n<tools>\nweather\n</tools>\n<tool_call>\n<function=example_function_name>\n" +
			"<parameter=example_parameter_1>\nvalue_1\n</parameter>\n</function>\n</tool_call><|im_end|>\n" +
			"<|im_start|>user\nRain?<|im_end|>\n" +
			"<|im_start|>assistant\n<think>\nI look.\n</think>\n\n<tool_call>\n<function=weather>\n<parameter=city>\n" +
			"Oslo\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call><|im_end|>\n" +
			"<|im_start|>user\n<tool_response>\nwet\n</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n",
		reply: "Wet.\n</think>\n\nAgain:\n\n<tool_call>\n<function=weather>\n<parameter=city>\n12\n</parameter>\n" +
			"<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=weather>\n" +
			"<parameter=city>\na\nb\n</parameter>\n</function>\n</tool_call>",
		reasoning: "Wet.\n", content: "Again:\n\n", calls: `weather{"city": "12", "days": 3} weather{"city": "a\nb"} `,
	},
	{
		name: "qwen3_next",
		prompt: "<|im_start|>system\n<tools>\nweather\n</tools>\n<tool_call>\n{\"name\": <function-name>, " +
			"\"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n<|im_start|>user\nRain?<|im_end|>\n" +
			"<|im_start|>assistant\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", " +
			"\"days\": 2}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nwet\n</tool_response>" +
			"<|im_end|>\n<|im_start|>assistant\n",
		reply:   "Once more.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>",
		content: "Once more.\n", calls: `weather{"city": "Rome"} `,
	},
	{
		name: "kimi_linear",
		prompt: "<|im_system|>tool_declare<|im_middle|>1<|im_end|><|im_user|>user<|im_middle|>Rain?<|im_end|>" +
			"<|im_assistant|>assistant<|im_middle|><|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0" +
			"<|tool_call_argument_begin|>{\"city\": \"Oslo\", \"days\": 2}<|tool_call_end|><|tool_calls_section_end|>" +
			"<|im_end|><|im_system|>tool<|im_middle|>## Return of functions.weather:0\nwet<|im_end|>" +
			"<|im_assistant|>assistant<|im_middle|>",
		reply: "Two more.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:1" +
			"<|tool_call_argument_begin|>{\"city\": \"Rome\"}<|tool_call_end|><|tool_call_begin|>functions.weather:2" +
			"<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
		content: "Two more.", calls: `weather{"city": "Rome"} weather{} `,
	},
	{
		name: "olmo_hybrid",
		prompt: "<|im_start|>system\nYou call functions. Output any function calls within <function_calls>" +
			"</function_calls> XML tags.<functions>weather</functions><|im_end|>\n<|im_start|>user\nRain?<|im_end|>\n" +
			"<|im_start|>assistant\n<function_calls>weather(city=\"Oslo\", days=2)</function_calls><|im_end|>\n" +
			"<|im_start|>environment\nwet<|im_end|>\n<|im_start|>assistant\n<think>",
		reply:     "Hm.</think>Yes. <function_calls>weather(city=\"Rome\", days=null)\nweather()</function_calls>",
		reasoning: "Hm.", content: "Yes. ", calls: `weather{"city": "Rome", "days": null} weather{} `,
	},
}

// askWeather is a conversation with a call and its result, and the function that was called.
const askWeather = `{"messages":[{"role":"user","content":"Rain?"},{"role":"assistant","content":"",` +
	`"reasoning_content":"I look.","tool_calls":[{"id":"functions.weather:0","type":"function","function":` +
	`{"name":"weather","arguments":"{\"city\": \"Oslo\", \"days\": 2}"}}]},` +
	`{"role":"tool","tool_call_id":"functions.weather:0","content":"wet"}],"tools":[{"type":"function","function":` +
	`{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"},` +
	`"days":{"type":"integer"}}}}}]}`

// TestPublishedForms checks that calls and reasoning are written to the prompt as in the template of a family, and are
// recognized in its replies.
func TestPublishedForms(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	for _, c := range publishedForms {
		t.Run(c.name, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join("testdata", "forms", c.name+".jinja"))
			if err != nil {
				t.Fatal(err)
			}
			s.Speak(strings.TrimSuffix(string(source), "\n"))
			var q struct {
				Messages []reply.Message   `json:"messages"`
				Tools    []json.RawMessage `json:"tools"`
			}
			if err := json.Unmarshal([]byte(askWeather), &q); err != nil {
				t.Fatal(err)
			}
			d, err := reply.Converse(t.Context(), s.Model, "messages",
				&reply.Chat{Messages: q.Messages, Tools: reply.ToolRequest{Tools: q.Tools}})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(s.Model.Tokenizer.Decode(nil, d.IDs)); got != c.prompt {
				t.Errorf("got  %q\nwant %q", got, c.prompt)
			}
			var all reply.Delta
			split := d.Split()
			for rest := c.reply; rest != ""; {
				n := min(3, len(rest))
				all.Add(split.Push(rest[:n], n == len(rest)))
				rest = rest[n:]
			}
			var calls strings.Builder
			for _, one := range all.Calls {
				fmt.Fprint(&calls, one.Function.Name, one.Function.Arguments, " ")
			}
			if all.Reasoning != c.reasoning || all.Content != c.content || calls.String() != c.calls {
				t.Errorf("got %q, %q, %s, want %q, %q, %s", all.Reasoning, all.Content, &calls, c.reasoning, c.content,
					c.calls)
			}
		})
	}
}

// TestRWKVForm checks that RWKV-7's chats are paragraphs that name the speaker, that the prompt begins the mark of
// reasoning, or not, and that there are no tools.
func TestRWKVForm(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	source, err := os.ReadFile(filepath.Join("testdata", "forms", "rwkv7.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	s.Speak(strings.TrimSuffix(string(source), "\n"))
	messages := []reply.Message{reply.NewMessage("user", "Hi"), reply.NewMessage("assistant", " Hi!"),
		reply.NewMessage("user", "Why?")}
	for effort, want := range map[string][4]string{
		"":     {"Assistant: <think", ">Because</think>\nSo.", "Because", "So."},
		"none": {"Assistant:", " So.", "", " So."},
	} {
		d, err := reply.Converse(t.Context(), s.Model, "messages",
			&reply.Chat{Messages: messages, More: reply.WithEffort(nil, effort)})
		if err != nil {
			t.Fatal(err)
		}
		prompt := "User: Hi\n\nAssistant: Hi!\n\nUser: Why?\n\n" + want[0]
		if got := string(s.Model.Tokenizer.Decode(nil, d.IDs)); got != prompt {
			t.Errorf("got %q, want %q", got, prompt)
		}
		if got := d.Split().Push(want[1], true); got.Reasoning != want[2] || got.Content != want[3] {
			t.Errorf("effort %q: got %+v, want %q and %q", effort, got, want[2], want[3])
		}
	}
	_, err = reply.Converse(t.Context(), s.Model, "messages", &reply.Chat{Messages: messages,
		Tools: reply.ToolRequest{Tools: []json.RawMessage{json.RawMessage(`{"function":{"name":"f"}}`)}}})
	if err == nil || !strings.Contains(err.Error(), "knows no tools") {
		t.Errorf("tools: got %v", err)
	}
}
