package openai_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
)

// TestWording checks that tokens excluded by bad_words, allowed_token_ids and llama.cpp's penalties are not written,
// that a stop string is kept on request, and that values out of range are refused by name.
func TestWording(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	text := func(fields string) string {
		t.Helper()
		a := servetest.Post[openai.Completion](s, "/v1/completions", `{"prompt":"Call me","seed":3,`+fields+`}`)
		return a.Choices[0].Text
	}
	const long = `"max_tokens":300,`
	if got := text(long + `"guided_regex":"[abc]{100}","bad_words":["a","bc","cc"]`); strings.Contains(got, "a") ||
		strings.Contains(got, "bc") || strings.Contains(got, "cc") || len(got) != 100 {
		t.Errorf("bad_words: got %q", got)
	}
	if got := text(long + `"allowed_token_ids":[120,121,120]`); strings.Trim(got, "xy") != "" || len(got) != 300 ||
		!strings.Contains(got, "y") {
		t.Errorf("allowed_token_ids: got %q", got)
	}
	if got := text(long + `"guided_regex":"[xy]{4}stop[xy]{9}","stop":"stop"`); len(got) != 4 {
		t.Errorf("without the stop string: got %q", got)
	}
	got := text(long + `"guided_regex":"[xy]{4}stop[xy]{9}","stop":"stop","include_stop_str_in_output":true`)
	if len(got) != 8 || !strings.HasSuffix(got, "stop") {
		t.Errorf("include_stop_str_in_output: got %q", got)
	}
	// A large penalty makes each sequence of two letters occur only once, if there are enough others.
	dry := text(`"max_tokens":8,"temperature":0,"guided_regex":"[abcdef]{8}","dry_multiplier":1e6,` +
		`"dry_allowed_length":1,"dry_sequence_breakers":[]`)
	for i := range len(dry) - 1 {
		if strings.Count(dry, dry[i:i+2]) > 1 {
			t.Errorf("dry_multiplier: %q has %q twice", dry, dry[i:i+2])
		}
	}
	if plain := text(`"max_tokens":8,"temperature":0,"guided_regex":"[abcdef]{8}"`); plain == dry {
		t.Errorf("dry_multiplier changes nothing: %q", plain)
	}
	same := text(long + `"repetition_penalty":1.5,"repeat_last_n":-1,"ignore_eos":true`)
	if got := text(long + `"repeat_penalty":1.5,"repeat_last_n":-1,"ignore_eos":true`); got != same {
		t.Errorf("repeat_penalty: got %q, want %q", got, same)
	}
	if got := text(long + `"repeat_penalty":1.5,"repeat_last_n":0,"ignore_eos":true`); got == same ||
		got != text(long+`"ignore_eos":true`) {
		t.Errorf("repeat_last_n 0: got %q", got)
	}
	for body, want := range map[string]string{
		`"bad_words":[""]`:                              "bad_words: found",
		`"bad_words":"a"`:                               "bad_words",
		`"allowed_token_ids":[1000000]`:                 "allowed_token_ids: found 1000000",
		`"dry_multiplier":-1`:                           "dry_multiplier: found -1",
		`"dry_multiplier":1,"dry_base":0.5`:             "dry_base: found 0.5",
		`"dry_multiplier":1,"dry_allowed_length":-1`:    "dry_allowed_length: found -1",
		`"dry_multiplier":1,"dry_penalty_last_n":-2`:    "dry_penalty_last_n: found -2",
		`"dry_sequence_breakers":[""]`:                  "dry_sequence_breakers: found",
		`"repeat_last_n":-2`:                            "repeat_last_n: found -2",
		`"repeat_penalty":-1`:                           "repeat_penalty: found -1",
		`"repeat_penalty":1.1,"repetition_penalty":1.1`: "repeat_penalty: found it beside",
		`"allowed_token_ids":[65],"bad_words":["A"]`:    "found no token that may follow",
		`"allowed_token_ids":[65],"guided_regex":"b"`:   "found no token that may follow",
		`"prompt_logprobs":-1`:                          "prompt_logprobs: found -1",
		`"prompt_logprobs":21`:                          "prompt_logprobs: found 21",
		`"prompt_logprobs":1,"stream":true`:             "prompt_logprobs: found 1 and stream",
	} {
		status, _, data := s.Do(http.MethodPost, "/v1/completions", `{"prompt":"a","max_tokens":1,`+body+`}`)
		if status != http.StatusBadRequest || !strings.Contains(string(data), want) {
			t.Errorf("%s: got %d, %s", body, status, data)
		}
	}
}

// TestAmbiguousGrammar checks that a reply under an ambiguous grammar ends with an error about that.
func TestAmbiguousGrammar(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	status, _, data := s.Do(http.MethodPost, "/v1/completions", `{"prompt":"a","max_tokens":60,"grammar":`+
		`"root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"d\"","logit_bias":{"97":100}}`)
	if status != http.StatusBadRequest || !strings.Contains(string(data), "too many ways") {
		t.Errorf("got %d, %s", status, data)
	}
}

// TestPromptLogprobs checks that the log-probabilities of a prompt equal those of echo, by id, with ranks, in
// completions and chats.
func TestPromptLogprobs(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	type scored struct {
		LogProb float64
		Rank    int
		Text    string `json:"decoded_token"`
	}
	type answer struct {
		Prompt  []map[string]scored `json:"prompt_logprobs"`
		Choices []struct {
			Prompt   []map[string]scored `json:"prompt_logprobs"`
			Logprobs *openai.CompletionLogprobs
		}
	}
	const prompt = "Call me Ishmael."
	echo := servetest.Post[answer](s, "/v1/completions",
		`{"prompt":"`+prompt+`","max_tokens":0,"echo":true,"logprobs":20}`).Choices[0].Logprobs
	both := servetest.Post[answer](s, "/v1/completions",
		`{"prompt":"`+prompt+`","max_tokens":0,"echo":true,"logprobs":1,"prompt_logprobs":20}`).Choices[0]
	chat := servetest.Post[answer](s, "/v1/chat/completions",
		`{"messages":[{"role":"user","content":"`+prompt+`"}],"max_tokens":1,"prompt_logprobs":0}`)
	all := both.Prompt
	if len(all) != len(prompt) || all[0] != nil || len(both.Logprobs.Top[3]) > 2 {
		t.Fatalf("got %v and %v", all, both.Logprobs)
	}
	for i := 1; i < len(prompt); i++ {
		own := all[i][fmt.Sprint(prompt[i])]
		if own.LogProb != *echo.Values[i] || own.Text != prompt[i:i+1] || own.Rank < 1 || len(all[i]) < 20 {
			t.Errorf("token %d: got %+v, want %v", i, own, *echo.Values[i])
		}
		for id, one := range all[i] {
			before := 0
			for other, with := range all[i] {
				if with.LogProb > one.LogProb || with.LogProb == one.LogProb && with.Rank < one.Rank {
					before++
				}
				if with.Rank == one.Rank && id != other {
					t.Errorf("token %d: %s and %s have the rank %d", i, id, other, one.Rank)
				}
			}
			if one.Rank <= 20 && one.Rank != before+1 || one.Rank > 20 && id != fmt.Sprint(prompt[i]) {
				t.Errorf("token %d: %s has the rank %d, and %d are before it", i, id, one.Rank, before)
			}
		}
	}
	if len(chat.Prompt) < len(prompt) || chat.Prompt[0] != nil || len(chat.Prompt[1]) != 1 {
		t.Errorf("a chat has %v", chat.Prompt)
	}
	for _, one := range chat.Prompt[1] {
		if one.Rank < 1 || one.LogProb >= 0 || math.IsInf(one.LogProb, 0) {
			t.Errorf("a chat has %+v", one)
		}
	}
}

// TestSkipSpecialTokens checks that special tokens are text or not, as requested, with correct offsets.
func TestSkipSpecialTokens(t *testing.T) {
	s := servetest.Tokenized(t, servetest.ByteBPE(t), "")
	ids := servetest.Post[struct{ Tokens []int32 }](s, "/tokenize", `{"prompt":"<|im_start|>a"}`).Tokens
	for skip, want := range map[string]func(text string) bool{
		"true":  func(text string) bool { return strings.Trim(text, "a") == "" },
		"false": func(text string) bool { return strings.Contains(text, "<|im_start|>") },
	} {
		a := servetest.Post[openai.Completion](s, "/v1/completions", fmt.Sprintf(
			`{"prompt":"a","max_tokens":12,"seed":1,"logprobs":0,"allowed_token_ids":[%d,%d],"skip_special_tokens":%s}`,
			ids[0], ids[1], skip)).Choices[0]
		p := a.Logprobs
		if last := p.Offset[len(p.Offset)-1]; !want(a.Text) || len(p.Tokens) != 12 || last > len(a.Text) {
			t.Errorf("%s: %q, %+v", skip, a.Text, p)
		}
	}
}
