package ollama

import "github.com/hippo-ssm/hippo/serve/request"

// Fields of Ollama that this server lacks, and fields of OpenAI that are options here.
var (
	replyForeign = request.Foreign{Refused: []request.Refusal{
		{"images", "", "text: the models read nothing else"},
		{"mount", "", "/v1/chat/completions or /v1/completions"},
		{"suffix", "", "prompt: the models read from left to right only"},
		{"template", "", "raw, with the rendered text as prompt"},
		{"width", "0", "text: the models write nothing else"},
		{"height", "0", "text: the models write nothing else"},
		{"steps", "0", "text: the models write nothing else"},
		{"_debug_render_only", "false", "hippo read"},
		{"temperature", "", "options.temperature"},
		{"top_p", "", "options.top_p"},
		{"top_k", "", "options.top_k"},
		{"min_p", "", "options.min_p"},
		{"seed", "", "options.seed"},
		{"stop", "", "options.stop"},
		{"num_predict", "", "options.num_predict"},
		{"max_tokens", "", "options.num_predict"},
		{"max_completion_tokens", "", "options.num_predict"},
		{"repeat_penalty", "", "options.repeat_penalty"},
		{"frequency_penalty", "", "options.frequency_penalty"},
		{"presence_penalty", "", "options.presence_penalty"},
		{"grammar", "", "format with a JSON schema, or grammar of /v1/completions"},
		{"response_format", "", "format"},
		{"json_schema", "", "format"},
		{"reasoning_effort", "", "think"},
		{"n", "1", "n of /v1/completions"},
		{"receipt", "false", "/v1/chat/completions"},
	}, Hints: "truncate shift num_ctx user"}

	optionForeign = request.Foreign{Refused: []request.Refusal{
		{"mirostat", "0", "temperature, top_k, top_p or min_p"},
		{"typical_p", "1", "top_p or min_p"},
		{"tfs_z", "1", "top_p or min_p"},
		{"grammar", "", "format with a JSON schema, or grammar of /v1/completions"},
		{"max_tokens", "", "num_predict"},
		{"repetition_penalty", "", "repeat_penalty"},
		{"logit_bias", "", "logit_bias of /v1/completions"},
		{"n", "1", "n of /v1/completions"},
		{"logits_all", "false", "logprobs"},
		{"vocab_only", "false", "/api/show"},
		{"embedding_only", "false", "/api/embed"},
	}, Hints: "num_ctx num_keep num_batch num_gpu main_gpu num_thread num_gqa numa use_mmap use_mlock low_vram " +
		"f16_kv mirostat_tau mirostat_eta penalize_newline draft_num_predict rope_frequency_base rope_frequency_scale"}

	embedForeign = request.Foreign{Refused: []request.Refusal{
		{"images", "", "text: the models read nothing else"},
		{"encoding_format", `"float"`, "/v1/embeddings"},
	}, Hints: "options user"}

	nameForeign = request.Foreign{Refused: []request.Refusal{
		{"username", "", "HF_TOKEN in the environment of hippo serve"},
		{"password", "", "HF_TOKEN in the environment of hippo serve"},
	}, Hints: "verbose options system template"}
)

// Foreign returns the foreign fields of replies.
func (*chatRequest) Foreign() request.Foreign { return replyForeign }

// Foreign returns the foreign options of replies.
func (*options) Foreign() request.Foreign { return optionForeign }

// Foreign returns the foreign fields of embeddings.
func (*embedRequest) Foreign() request.Foreign { return embedForeign }

// Foreign returns the foreign fields of requests about models.
func (*nameRequest) Foreign() request.Foreign { return nameForeign }
