package serve_test

import (
	"testing"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
)

// TestDrafts checks that replies with drafts equal those without, including log-probabilities, and that guesses are
// counted.
func TestDrafts(t *testing.T) {
	plain, drafts := servetest.NewSite(t, serve.Options{}), servetest.NewSite(t, serve.Options{})
	byModel, err := generate.ModelDrafts(drafts.Model.Net, servetest.Language(t))
	if err != nil {
		t.Fatal(err)
	}
	const drafted, accepted = `hippo_draft_tokens_total{kind="drafted",model="tiny"}`,
		`hippo_draft_tokens_total{kind="accepted",model="tiny"}`
	for i, d := range []generate.Drafts{generate.NGrams, byModel} {
		drafts.Model.Draft = d
		before := servetest.Figures(t, drafts.Hippo.Admin())
		for _, body := range []string{
			`{"prompt":"abcabcabcabc","max_tokens":60,"temperature":0,"ignore_eos":true,"logprobs":2}`,
			`{"prompt":"abc","max_tokens":60,"logit_bias":{"97":100},"ignore_eos":true}`,
			`{"prompt":"abcabcabcabc","max_tokens":60,"temperature":0.5,"seed":3,"ignore_eos":true,"n":2}`,
		} {
			got := servetest.Post[openai.Completion](drafts, "/v1/completions", body)
			want := servetest.Post[openai.Completion](plain, "/v1/completions", body)
			if a, b := servetest.Quoted(t, got.Choices), servetest.Quoted(t, want.Choices); a != b {
				t.Errorf("drafts %d: got %s, want %s", i, a, b)
			}
		}
		after := servetest.Figures(t, drafts.Hippo.Admin())
		guessed, right := after[drafted]-before[drafted], after[accepted]-before[accepted]
		if right < 20 || right > guessed || right > 240 {
			t.Errorf("drafts %d: %v of %v guessed tokens were right, want some of 240", i, right, guessed)
		}
	}
	if f := servetest.Figures(t, plain.Hippo.Admin()); f[drafted] != 0 || f[accepted] != 0 {
		t.Error("a server without drafts counts some")
	}
}
