package openai

import (
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Fields that an endpoint lacks, but other servers or other endpoints of this server have.
var (
	chatForeign = request.Foreign{Refused: []request.Refusal{
		{"audio", "", "text: the models write nothing else"},
		{"modalities", `["text"]`, `["text"]`},
		{"functions", "", "tools"},
		{"function_call", `"none" "auto"`, "tool_choice"},
		{"store", "false", "store of /v1/responses"},
		{"web_search_options", "", "tools"},
		{"verbosity", `"medium"`, "a message that says how long the reply is to be"},
		{"echo", "false", "continue_final_message"},
		{"best_of", "1", "n, or best_of of /v1/completions"},
		{"suffix", "", "messages"},
		{"prompt", "", "messages"},
		{"input", "", "messages"},
		{"instructions", "", "a message of the role system"},
		{"max_output_tokens", "", "max_completion_tokens"},
		{"add_special_tokens", "false", "the model's chat template, which writes them"},
		{"documents", "", "messages"},
		{"chat_template", "", "the model's own, or /v1/completions with the rendered text"},
		{"include_reasoning", "true", "reasoning_effort none"},
		{"reasoning_format", `"auto" "deepseek"`, "reasoning_content, as all replies have it"},
		{"reasoning_budget", "-1", "reasoning_effort"},
		{"reasoning", "", "reasoning_effort"},
		{"think", "", "reasoning_effort"},
		{"format", "", "response_format"},
		{"text", "", "response_format"},
		{"previous_response_id", "", "/v1/responses"},
	}, Hints: "metadata prediction thinking_forced_open parse_tool_calls"}.Plus(reply.SamplingForeign)

	completionForeign = request.Foreign{Refused: []request.Refusal{
		{"messages", "", "prompt, or /v1/chat/completions"},
		{"input", "", "prompt"},
		{"max_completion_tokens", "", "max_tokens"},
		{"max_output_tokens", "", "max_tokens"},
		{"top_logprobs", "0", "logprobs"},
		{"tools", "", "/v1/chat/completions"},
		{"tool_choice", `"none" "auto"`, "/v1/chat/completions"},
		{"reasoning_effort", "", "/v1/chat/completions"},
		{"chat_template_kwargs", "", "/v1/chat/completions"},
		{"add_special_tokens", "true", "a prompt of token ids"},
		{"store", "false", "store of /v1/responses"},
	}, Hints: "metadata"}.Plus(reply.SamplingForeign)

	compactForeign = request.Foreign{Refused: []request.Refusal{
		{"mount", "", "mount of /v1/responses"},
	}}.Plus(inputForeign)

	inputForeign = request.Foreign{Refused: []request.Refusal{
		{"messages", "", "input"},
		{"prompt", "", "input: this server has no templates of prompts"},
	}, Hints: "prompt_cache_key prompt_cache_options prompt_cache_retention service_tier"}

	countForeign = request.Foreign{Refused: []request.Refusal{
		{"reasoning_effort", "", "reasoning.effort"},
		{"truncation", `"disabled"`, "an input that fits"},
		{"personality", "", "instructions"},
		{"functions", "", "tools"},
		{"function_call", `"none" "auto"`, "tool_choice"},
	}}.Plus(inputForeign)

	responseForeign = request.Foreign{Refused: []request.Refusal{
		{"max_tokens", "", "max_output_tokens"},
		{"max_completion_tokens", "", "max_output_tokens"},
		{"n", "1", "more requests"},
		{"response_format", "", "text.format"},
		{"guided_json", "", "text.format"},
		{"guided_regex", "", "text.format"},
		{"guided_choice", "", "text.format"},
		{"guided_grammar", "", "text.format"},
		{"grammar", "", "text.format"},
		{"structured_outputs", "", "text.format"},
		{"json_schema", "", "text.format"},
		{"prompt_logprobs", "", "/v1/chat/completions"},
		{"verbosity", `"medium"`, "instructions that say how long the reply is to be"},
		{"logprobs", "false", "top_logprobs"},
		{"max_tool_calls", "", "parallel_tool_calls false"},
		{"context_management", "", "an input that fits, or /v1/responses/compact"},
		{"modalities", `["text"]`, `["text"]`},
	}}.Plus(countForeign, reply.SamplingForeign)

	embeddingForeign = request.Foreign{Refused: []request.Refusal{
		{"truncate_prompt_tokens", "", "truncate of /api/embed"},
		{"add_special_tokens", "true", "an input of token ids"},
		{"embed_dtype", `"float32"`, "encoding_format"},
		{"endianness", `"native" "little"`, "little"},
		{"normalize", "true", "true: embeddings have the length 1"},
		{"embd_normalize", "2", "2: embeddings have the length 1"},
		{"pooling", "", "hippo serve --pooling"},
		{"messages", "", "input"},
		{"content", "", "input"},
		{"prompt", "", "input"},
		{"mount", "", "input"},
		{"image_data", "", "text: the models read nothing else"},
	}, Hints: "user request_id"}

	tokenizeForeign = request.Foreign{Refused: []request.Refusal{
		{"content", "", "prompt"},
		{"messages", "", "prompt, with the text of /apply-template"},
		{"mount", "", "/apply-template, with mount"},
		{"with_pieces", "false", "return_token_strs"},
		{"parse_special", "true", "prompt as it is: texts of special tokens become them"},
	}}
)

// Foreign returns the endpoint's foreign fields.
func (*chatRequest) Foreign() request.Foreign       { return chatForeign }
func (*completionRequest) Foreign() request.Foreign { return completionForeign }
func (*responseRequest) Foreign() request.Foreign   { return responseForeign }
func (*countRequest) Foreign() request.Foreign      { return countForeign }
func (*compactRequest) Foreign() request.Foreign    { return compactForeign }
func (*embeddingRequest) Foreign() request.Foreign  { return embeddingForeign }
func (*tokenizeRequest) Foreign() request.Foreign   { return tokenizeForeign }
func (*templateRequest) Foreign() request.Foreign   { return chatForeign }

// Foreign returns the foreign fields of a response's text.
func (*responseText) Foreign() request.Foreign {
	return request.Foreign{Refused: []request.Refusal{
		{"verbosity", `"medium"`, "instructions that say how long the reply is to be"},
	}}
}

// Foreign returns the foreign fields of reasoning.
func (*responseReasoning) Foreign() request.Foreign {
	return request.Foreign{Refused: []request.Refusal{
		{"max_tokens", "", "effort"}, {"exclude", "false", "effort none"}, {"enabled", "true", "effort none"},
	}, Hints: "generate_summary"}
}
