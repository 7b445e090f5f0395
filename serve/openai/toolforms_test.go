package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/reply"
)

// publishedForms are families whose chat templates each have a form of calls and reasoning. The templates are written
// for these tests, in the shape of those that are published with the models.
var publishedForms = []struct {
	name, template, prompt    string // of askWeather
	reply, reasoning, content string
	calls                     string
}{
	{
		name: "Qwen3.5, Qwen3-Coder",
		template: `{%- macro text(content) %}{{- content if content is string else '' }}{%- endmacro %}` +
			`{%- if tools and tools is iterable and tools is not mapping %}` +
			`{{- "<|im_start|>system\n<tools>" }}{%- for tool in tools %}{{- "\n" }}{{- tool.function.name }}{%- endfor %}` +
			`{{- "\n</tools>\n<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\n` +
			`value_1\n</parameter>\n</function>\n</tool_call><|im_end|>\n" }}{%- endif %}` +
			`{%- set ns = namespace(last=messages|length - 1, open=true) %}` +
			`{%- for message in messages[::-1] %}{%- if ns.open and message.role == "user" %}` +
			`{%- set ns.open = false %}{%- set ns.last = messages|length - 1 - loop.index0 %}{%- endif %}{%- endfor %}` +
			`{%- for message in messages %}{%- set content = text(message.content)|trim %}` +
			`{%- if message.role == "assistant" %}{%- set thought = '' %}` +
			`{%- if message.reasoning_content is string %}{%- set thought = message.reasoning_content %}` +
			`{%- elif '</think>' in content %}` +
			`{%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}` +
			`{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}` +
			`{{- '<|im_start|>assistant\n' }}` +
			`{%- if loop.index0 > ns.last %}{{- '<think>\n' + thought|trim + '\n</think>\n\n' }}{%- endif %}{{- content }}` +
			`{%- if message.tool_calls %}{%- for tool_call in message.tool_calls %}` +
			`{%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}` +
			`{{- ('\n\n' if loop.first and content else '\n' if not loop.first else '') + '<tool_call>\n<function=' + ` +
			`tool_call.name + '>\n' }}` +
			`{%- for name, value in tool_call.arguments|items %}{{- '<parameter=' + name + '>\n' }}` +
			`{%- set value = value | tojson | safe if value is mapping or (value is sequence and value is not string) ` +
			`else value | string %}{{- value + '\n</parameter>\n' }}{%- endfor %}` +
			`{{- '</function>\n</tool_call>' }}{%- endfor %}{%- endif %}{{- '<|im_end|>\n' }}` +
			`{%- elif message.role == "tool" %}` +
			`{%- if loop.previtem and loop.previtem.role != "tool" %}{{- '<|im_start|>user' }}{%- endif %}` +
			`{{- '\n<tool_response>\n' + content + '\n</tool_response>' }}` +
			`{%- if loop.last or loop.nextitem.role != "tool" %}{{- '<|im_end|>\n' }}{%- endif %}` +
			`{%- else %}{{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}{%- endif %}{%- endfor %}` +
			`{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}` +
			`{{- '<think>\n\n</think>\n\n' if enable_thinking is defined and enable_thinking is false else '<think>\n' }}` +
			`{%- endif %}`,
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
		name: "Qwen3-Next",
		template: `{%- if tools %}{{- '<|im_start|>system\n<tools>' }}{%- for tool in tools %}{{- "\n" }}` +
			`{{- tool.function.name }}{%- endfor %}{{- "\n</tools>\n<tool_call>\n{\"name\": <function-name>, ` +
			`\"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n" }}{%- endif %}` +
			`{%- for message in messages %}{%- if message.role == "assistant" %}` +
			`{{- '<|im_start|>assistant\n' + message.content }}{%- for tool_call in message.tool_calls or [] %}` +
			`{%- set tool_call = tool_call.function %}{{- '<tool_call>\n{"name": "' + tool_call.name + ` +
			`'", "arguments": ' + tool_call.arguments | tojson + '}\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\n' }}` +
			`{%- elif message.role == "tool" %}{{- '<|im_start|>user\n<tool_response>\n' + message.content + ` +
			`'\n</tool_response><|im_end|>\n' }}` +
			`{%- else %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{%- endif %}` +
			`{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}`,
		prompt: "<|im_start|>system\n<tools>\nweather\n</tools>\n<tool_call>\n{\"name\": <function-name>, " +
			"\"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n<|im_start|>user\nRain?<|im_end|>\n" +
			"<|im_start|>assistant\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", " +
			"\"days\": 2}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nwet\n</tool_response>" +
			"<|im_end|>\n<|im_start|>assistant\n",
		reply:   "Once more.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>",
		content: "Once more.\n", calls: `weather{"city": "Rome"} `,
	},
	{
		name: "Kimi Linear",
		template: `{%- macro calls(message) -%}<|tool_calls_section_begin|>{%- for tool_call in message['tool_calls'] -%}` +
			`<|tool_call_begin|>{{ tool_call['id'] }}<|tool_call_argument_begin|>` +
			`{% if tool_call['function']['arguments'] is string %}{{ tool_call['function']['arguments'] }}` +
			`{% else %}{{ tool_call['function']['arguments'] | tojson }}{% endif %}<|tool_call_end|>` +
			`{%- endfor -%}<|tool_calls_section_end|>{%- endmacro -%}` +
			`{%- if tools -%}<|im_system|>tool_declare<|im_middle|>{{ tools | length }}<|im_end|>{%- endif -%}` +
			`{%- for message in messages -%}` +
			`{%- if message['role'] == 'user' -%}<|im_user|>user<|im_middle|>` +
			`{%- elif message['role'] == 'assistant' -%}<|im_assistant|>assistant<|im_middle|>` +
			`{%- else -%}<|im_system|>{{ message.get('name') or message['role'] }}<|im_middle|>{%- endif -%}` +
			`{%- if message['role'] == 'tool' -%}## Return of {{ message.tool_call_id }}` + "\n" +
			`{{ message['content'] }}{%- else -%}{{ message['content'] }}{%- endif -%}` +
			`{%- if message.get('tool_calls') -%}{{ calls(message) }}{%- endif -%}<|im_end|>{%- endfor -%}` +
			`{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|>{%- endif -%}`,
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
		name: "Olmo Hybrid",
		template: `{%- for message in messages -%}{%- if loop.first and message['role'] != 'system' -%}` +
			`{{ '<|im_start|>system\nYou call functions. ' }}{%- if tools is none or (tools | length == 0) -%}` +
			`{{ '<functions></functions>' }}{%- else -%}{{ 'Output any function calls within <function_calls>` +
			`</function_calls> XML tags.<functions>' ~ tools[0].function.name ~ '</functions>' }}{%- endif -%}` +
			`{{ '<|im_end|>\n' }}{%- endif -%}` +
			`{%- if message['role'] == 'assistant' -%}{{ '<|im_start|>assistant\n' }}` +
			`{%- if message.get('content', none) is not none -%}{{ message['content'] }}{%- endif -%}` +
			`{%- if message.get('tool_calls', none) is not none -%}{{ '<function_calls>' }}` +
			`{%- for tool_call in message['tool_calls'] -%}{%- set ns = namespace(list=[]) -%}` +
			`{%- for key, value in tool_call['function']['arguments'].items() -%}` +
			`{%- set ns.list = ns.list + [key ~ '=' ~ (value | tojson)] -%}{%- endfor -%}` +
			`{{ tool_call['function']['name'] + '(' + ns.list | join(', ') + ')' }}` +
			`{%- if not loop.last -%}{{ '\n' }}{%- endif -%}{%- endfor -%}{{ '</function_calls>' }}{%- endif -%}` +
			`{{ '<|im_end|>\n' }}{%- elif message['role'] == 'tool' -%}` +
			`{{ '<|im_start|>environment\n' + message['content'] + '<|im_end|>\n' }}` +
			`{%- else -%}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{%- endif -%}` +
			`{%- if loop.last and add_generation_prompt -%}{{ '<|im_start|>assistant\n<think>' }}{%- endif -%}{%- endfor -%}`,
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

// TestPublishedForms: calls and reasoning go into the prompt as the template of a family writes them, and are told
// apart in its replies.
func TestPublishedForms(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	for _, c := range publishedForms {
		t.Run(c.name, func(t *testing.T) {
			s.Speak(c.template)
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
