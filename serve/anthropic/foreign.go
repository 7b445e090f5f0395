package anthropic

import (
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Fields of Anthropic that this server lacks, and fields of its other endpoints that have another name here.
var (
	countForeign = request.Foreign{Refused: []request.Refusal{
		{"container", "", "a tool of your own: this server runs none"},
		{"mcp_servers", "", "tools: this server runs none"},
		{"context_management", `{"edits":[]} {"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}`,
			"messages that fit"},
		{"output_format", "", "output_config.format"},
		{"prompt", "", "messages"},
		{"input", "", "messages"},
		{"instructions", "", "system"},
		{"functions", "", "tools"},
		{"function_call", `"none" "auto"`, "tool_choice"},
		{"reasoning_effort", "", "thinking and output_config.effort"},
	}, Hints: "betas anthropic_beta anthropic_version speed"}

	messageForeign = request.Foreign{Refused: []request.Refusal{
		{"n", "1", "more requests"},
		{"stop", "", "stop_sequences"},
		{"stream_options", "", "none: streams report the usage"},
		{"max_completion_tokens", "", "max_tokens"},
		{"max_output_tokens", "", "max_tokens"},
		{"max_tokens_to_sample", "", "max_tokens"},
		{"response_format", "", "output_config.format"},
		{"guided_json", "", "output_config.format"},
		{"guided_regex", "", "/v1/chat/completions"},
		{"guided_choice", "", "/v1/chat/completions"},
		{"guided_grammar", "", "/v1/chat/completions"},
		{"grammar", "", "/v1/chat/completions"},
		{"prompt_logprobs", "", "/v1/chat/completions"},
		{"structured_outputs", "", "output_config.format"},
		{"json_schema", "", "output_config.format"},
		{"logprobs", "false", "/v1/chat/completions"},
		{"top_logprobs", "0", "/v1/chat/completions"},
		{"parallel_tool_calls", "true", "tool_choice.disable_parallel_tool_use"},
		{"diagnostics", "", "the header X-Hippo-Cache"},
		{"inference_geo", "", "none: the server computes where it runs"},
		{"store", "false", "/v1/responses"},
	}, Hints: "metadata"}.Plus(countForeign, reply.SamplingForeign)
)

// Foreign returns the foreign fields of messages.
func (*messageRequest) Foreign() request.Foreign { return messageForeign }
func (*countRequest) Foreign() request.Foreign   { return countForeign }
