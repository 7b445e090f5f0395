package reply

import "github.com/hippo-ssm/hippo/serve/request"

// SamplingForeign are the sampling fields that this server lacks, mostly of vLLM, llama.cpp and SGLang.
var SamplingForeign = request.Foreign{
	Refused: []request.Refusal{
		{"use_beam_search", "false", "best_of of /v1/completions"},
		{"truncate_prompt_tokens", "", "a shorter prompt"},
		{"return_tokens_as_token_ids", "false", "/v1/sessions, whose replies have ids"},
		{"return_token_ids", "false", "/v1/sessions, whose replies have ids"},
		{"return_tokens", "false", "/v1/sessions, whose replies have ids"},
		{"guided_whitespace_pattern", "", "guided_regex"},
		{"structural_tag", "", "tools or guided_regex"},
		{"guided_decoding", "", "guided_json, guided_regex, guided_choice or guided_grammar"},
		{"logits_processors", "", "logit_bias"},
		{"logits_processor_args", "", "logit_bias"},
		{"repetition_detection", "", "repetition_penalty"},
		{"thinking_token_budget", "-1", "reasoning_effort"},
		{"kv_transfer_params", "", "a folder that servers share, hippo serve --store"},
		{"vllm_xargs", "", "none"},
		{"request_id", "", "the header X-Request-Id"},
		{"prompt_embeds", "", "texts or token ids"},
		{"lora_request", "", "the adapter's name as model, MODEL:NAME"},

		{"mirostat", "0", "temperature, top_k, top_p or min_p"},
		{"typical_p", "1", "top_p or min_p"},
		{"tfs_z", "1", "top_p or min_p"},
		{"top_a", "0", "min_p"},
		{"top_n_sigma", "-1 0", "min_p"},
		{"dynatemp_range", "0", "temperature"},
		{"xtc_probability", "0", "temperature"},
		{"adaptive_target", "-1", "temperature"},
		{"samplers", "", "temperature, top_k, top_p and min_p"},
		{"min_keep", "0 1", "top_k, top_p or min_p"},
		{"n_predict", "", "max_tokens"},
		{"num_predict", "", "max_tokens"},
		{"max_new_tokens", "", "max_tokens"},
		{"n_cmpl", "1", "n"},
		{"n_indent", "0", "guided_regex"},
		{"n_probs", "0", "logprobs"},
		{"post_sampling_probs", "false", "logprobs, which are those of the model"},
		{"response_fields", "", "none: responses have all fields"},
		{"lora", "", "the adapter's name as model, MODEL:NAME"},
		{"t_max_predict_ms", "0 -1", "max_tokens"},
		{"t_max_prompt_ms", "0 -1", "a shorter prompt"},
		{"return_progress", "false", "/metrics"},
		{"timings_per_token", "false", "/metrics"},
		{"image_data", "", "text: the models read nothing else"},
		{"multimodal_data", "", "text: the models read nothing else"},
		{"input_prefix", "", "prompt"},
		{"input_suffix", "", "prompt: the models read from left to right only"},
		{"input_extra", "", "prompt"},
		{"options", "", "the options themselves, as fields of the request"},
		{"keep_alive", "", "keep_alive of /api/generate, or hippo serve --keep_alive"},

		{"regex", "", "guided_regex"},
		{"ebnf", "", "grammar, in GBNF or Lark"},
		{"stop_regex", "", "stop"},
		{"no_stop_trim", "false", "include_stop_str_in_output"},
		{"lora_path", "", "the adapter's name as model, MODEL:NAME"},
		{"custom_logit_processor", "", "logit_bias"},
		{"return_hidden_states", "false", "/v1/embeddings"},
		{"session_params", "", "/v1/sessions"},
		{"sampling_params", "", "the options themselves, as fields of the request"},
		{"ttl", "", "keep_alive of /api/generate, or hippo serve --keep_alive"},
		{"draft_model", "", "hippo serve --draft"},
	},
	Hints: "user safety_identifier prompt_cache_key prompt_cache_retention service_tier length_penalty " +
		"early_stopping spaces_between_special_tokens guided_decoding_backend mirostat_tau mirostat_eta " +
		"dynatemp_exponent xtc_threshold adaptive_decay penalize_nl n_keep n_discard n_ctx num_ctx id_slot " +
		"slot_id cache_prompt backend_sampling grammar_lazy grammar_triggers preserved_tokens " +
		"mm_processor_kwargs media_io_kwargs rid separate_reasoning stream_reasoning",
}

// Foreign returns the foreign fields of requests for replies.
func (*Sampling) Foreign() request.Foreign { return SamplingForeign }

// Foreign returns the foreign fields of stream_options.
func (*streamOptions) Foreign() request.Foreign {
	return request.Foreign{
		Refused: []request.Refusal{{"continuous_usage_stats", "false", "include_usage"}},
		Hints:   "include_obfuscation",
	}
}

// GuidedForeign are the fields for constraining replies that this server lacks.
var GuidedForeign = request.Foreign{Refused: []request.Refusal{
	{"structural_tag", "", "json or regex"},
	{"whitespace_pattern", "", "regex"},
	{"disable_any_whitespace", "false", "regex"},
	{"disable_additional_properties", "false", "additionalProperties of the schema"},
}, Hints: "disable_fallback backend"}

// Foreign returns the foreign fields of structured_outputs.
func (*structuredOutputs) Foreign() request.Foreign { return GuidedForeign }

// messageForeign are foreign fields of messages. Content that the model cannot read must not be dropped silently.
var messageForeign = []request.Refusal{
	{"images", "", "text: the models read nothing else"},
	{"audio", "", "text: the models read nothing else"},
	{"function_call", "", "tool_calls"},
}
