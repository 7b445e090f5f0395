package openai_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/session"
)

// The tests of this file send the requests of lm-evaluation-harness (lm_eval/models/openai_completions.py, class
// LocalCompletionsAPI, and api_models.py), and read the answers in the same way.

// loglikelihoods returns the request of LocalCompletionsAPI._create_payload for log-likelihoods.
func loglikelihoods(t *testing.T, prompts [][]int32) string {
	return fmt.Sprintf(
		`{"model":"tiny","prompt":%s,"temperature":0,"max_tokens":1,"logprobs":1,"seed":1234,"echo":true}`,
		servetest.Quoted(t, prompts))
}

// harnessAnswer has the fields that parse_logprobs reads.
type harnessAnswer struct{ Choices []harnessChoice }

type harnessChoice struct {
	Index    int
	Logprobs struct {
		Token []*float64           `json:"token_logprobs"`
		Top   []map[string]float64 `json:"top_logprobs"`
		Texts []string             `json:"tokens"`
		At    []int                `json:"text_offset"`
	}
}

// parseLogprobs is LocalCompletionsAPI.parse_logprobs: it returns the sums of the log-probabilities after the contexts,
// without the sampled token, and whether each is the largest at its position.
func (a *harnessAnswer) parseLogprobs(t *testing.T, contexts []int) (sums []float64, greedy []bool) {
	t.Helper()
	if len(a.Choices) != len(contexts) {
		t.Fatalf("%d choices for %d prompts", len(a.Choices), len(contexts))
	}
	slices.SortFunc(a.Choices, func(a, b harnessChoice) int { return a.Index - b.Index })
	for i, c := range a.Choices {
		p := c.Logprobs
		sum, all := 0.0, true
		for j := contexts[i]; j < len(p.Token)-1; j++ {
			sum += *p.Token[j]
			largest := math.Inf(-1)
			for _, x := range p.Top[j] {
				largest = max(largest, x)
			}
			all = all && *p.Token[j] == largest
		}
		sums, greedy = append(sums, sum), append(greedy, all)
	}
	return sums, greedy
}

// greedyEnding returns the n most probable ids after ids.
func greedyEnding(t *testing.T, m *host.Model, ids []int32, n int) []int32 {
	all := slices.Clone(ids)
	for range n {
		_, best := servetest.Truth(t, m, all)
		all = append(all, best[len(all)].ID)
	}
	return all[len(ids):]
}

// TestHarnessLoglikelihood checks that the harness computes the model's log-likelihoods of endings, including bytes
// that are not characters and the endings that the model itself would write, in batches and alone.
func TestHarnessLoglikelihood(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	var prompts [][]int32
	var contexts []int
	for i := range 12 {
		ids := make([]int32, 1+rng.IntN(200))
		for j := range ids {
			ids[j] = rng.Int32N(256)
		}
		contexts = append(contexts, len(ids))
		if i%3 == 0 {
			ids = append(ids, greedyEnding(t, s.Model, ids, 3)...)
		} else {
			ids = append(ids, rng.Int32N(256), rng.Int32N(256))
		}
		prompts = append(prompts, ids)
	}
	sums := make([]float64, len(prompts))
	greedy := make([]bool, len(prompts))
	for _, batch := range []int{1, 5, len(prompts)} {
		for lo := 0; lo < len(prompts); lo += batch {
			hi := min(len(prompts), lo+batch)
			a := servetest.Post[harnessAnswer](s, "/v1/completions", loglikelihoods(t, prompts[lo:hi]))
			gotSums, gotGreedy := a.parseLogprobs(t, contexts[lo:hi])
			copy(sums[lo:], gotSums)
			copy(greedy[lo:], gotGreedy)
			for i, c := range a.Choices {
				if n := len(prompts[lo+i]) + 1; len(c.Logprobs.Token) != n || len(c.Logprobs.Top) != n ||
					len(c.Logprobs.Texts) != n || len(c.Logprobs.At) != n || c.Logprobs.Token[0] != nil {
					t.Fatalf("prompt %d: want %d tokens, the first without a log-probability, got %+v", lo+i, n, c)
				}
			}
		}
		found := 0
		for i, ids := range prompts {
			own, best := servetest.Truth(t, s.Model, ids)
			sum, all := 0.0, true
			for j := contexts[i]; j < len(ids); j++ {
				sum += own[j]
				all = all && best[j].ID == ids[j]
			}
			if sums[i] != sum || greedy[i] != all {
				t.Errorf("batches of %d, prompt %d: got %v, %v, want %v, %v", batch, i, sums[i], greedy[i], sum, all)
			}
			if all {
				found++
			}
		}
		if found < 4 || found == len(prompts) {
			t.Errorf("%d of %d endings are greedy: the test shows little", found, len(prompts))
		}
	}
}

// TestByteTokensStayApart checks that every position has the requested number of alternatives and the token itself,
// though half of the vocabulary is not text.
func TestByteTokensStayApart(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	ids := []int32{65, 0x80, 0xe2, 0x82, 0xac, 0xff, 0xfe, 66}
	const top = 20
	a := servetest.Post[harnessAnswer](s, "/v1/completions", fmt.Sprintf(
		`{"prompt":%s,"max_tokens":0,"logprobs":%d,"echo":true}`, servetest.Quoted(t, ids), top))
	p := a.Choices[0].Logprobs
	for i := 1; i < len(ids); i++ {
		if n := len(p.Top[i]); n < top || n > top+1 {
			t.Errorf("place %d has %d alternatives, want %d and perhaps the token", i, n, top)
		}
		if got, ok := p.Top[i][p.Texts[i]]; !ok || got != *p.Token[i] {
			t.Errorf("place %d: %q has %v among the alternatives, want %v", i, p.Texts[i], got, *p.Token[i])
		}
	}
	want := `["A","bytes:\\x80","bytes:\\xe2","bytes:\\x82","bytes:\\xac","bytes:\\xff","bytes:\\xfe","B"]`
	if servetest.Quoted(t, p.Texts) != want {
		t.Errorf("tokens are %s, want %s", servetest.Quoted(t, p.Texts), want)
	}
	// A, U+FFFD, the three bytes of a euro sign, two of U+FFFD, B.
	if want := []int{0, 1, 2, 2, 2, 3, 4, 5}; !slices.Equal(p.At, want) {
		t.Errorf("offsets are %v, want %v", p.At, want)
	}
}

// TestHarnessTokenizer checks the requests of RemoteTokenizer in lm_eval/utils.py.
func TestHarnessTokenizer(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	status, _, data := s.Do(http.MethodGet, "/tokenizer_info", "")
	info := servetest.Decode[map[string]any](t, data)
	if _, ok := info["eos_token"]; status != http.StatusOK || !ok || info["chat_template"] != servetest.ChatTemplate {
		t.Errorf("status %d, %s", status, data)
	}
	text := "Call me é"
	tokens := servetest.Post[struct{ Tokens []int32 }](s, "/tokenize",
		`{"prompt":`+servetest.Quoted(t, text)+`,"add_special_tokens":false}`)
	if string(s.Model.Tokenizer.Decode(nil, tokens.Tokens)) != text {
		t.Errorf("got %v", tokens)
	}
	back := servetest.Post[struct{ Prompt string }](s, "/detokenize",
		`{"tokens":`+servetest.Quoted(t, tokens.Tokens)+`}`)
	if back.Prompt != text {
		t.Errorf("got %q, want %q", back.Prompt, text)
	}
}

// TestHarnessGenerate checks that generate_until can send lists of ids, or texts, with stop strings, and read texts by
// index.
func TestHarnessGenerate(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	one := servetest.Post[openai.Completion](s, "/v1/completions",
		`{"prompt":["Call me"],"model":"tiny","max_tokens":30,"temperature":0,"stop":[],"seed":1234}`)
	stop := string([]rune(one.Choices[0].Text)[5:7])
	want, _, _ := strings.Cut(one.Choices[0].Text, stop)
	a := servetest.Post[openai.Completion](s, "/v1/completions", fmt.Sprintf(
		`{"prompt":[[67,97,108,108],%s],"model":"tiny","max_tokens":30,"temperature":0,"stop":[%s,"\n\n\n\n"]}`,
		`[67,97,108,108,32,109,101]`, servetest.Quoted(t, stop)))
	if len(a.Choices) != 2 || a.Choices[1].Index != 1 || a.Choices[1].Text != want || *a.Choices[1].Finish != "stop" {
		t.Errorf("got %+v, want the text %q", a.Choices, want)
	}
}

// TestScoresAreTheLoss checks that the mean log-probability of a text is the loss that hippo eval measures.
func TestScoresAreTheLoss(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	ids := servetest.BytesOf("It was the best of times, it was the worst of times, it was the age of wisdom.")
	a := servetest.Post[harnessAnswer](s, "/v1/completions", loglikelihoods(t, [][]int32{ids}))
	sums, _ := a.parseLogprobs(t, []int{1})
	tape := s.Model.Net.Tapes.Lend()
	defer s.Model.Net.Tapes.Return(tape)
	var rows model.Rows
	rows.Add(len(ids)-1, s.Model.Net.NewState())
	var loss [1]float32
	hidden := s.Model.Net.Forward(tape, ids[:len(ids)-1], &rows)
	s.Model.Net.Loss(tape, hidden, ids[1:]).CopyTo(loss[:])
	const rounding = 1e-5 // of sums in float32
	if got := -sums[0] / float64(len(ids)-1); math.Abs(got-float64(loss[0])) > rounding*float64(loss[0]) {
		t.Errorf("got the loss %v, want %v", got, loss[0])
	}
}

// TestEndingsReadTheContextOnce checks that the endings of one context, in one request or several, read it once up to
// the last multiple of the chunk, and have the same scores as alone.
func TestEndingsReadTheContextOnce(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	var read atomic.Int64
	inner := s.Model.Runner
	s.Model.Runner = servetest.RunnerFunc(func(ctx context.Context, r *session.Request) error {
		for _, part := range r.Segments {
			read.Add(int64(len(part.IDs)))
		}
		return inner.Run(ctx, r)
	})
	rng := rand.New(rand.NewPCG(4, 5))
	shared := make([]int32, 4*session.Chunk(s.Model.Net)+10)
	for i := range shared {
		shared[i] = rng.Int32N(256)
	}
	var prompts [][]int32
	for i := range int32(8) {
		prompts = append(prompts, append(slices.Clone(shared), 65+i, 66, 67+i))
	}
	want := int64(len(prompts[0]))
	for _, batch := range [][][]int32{prompts[:4], prompts[4:7], prompts[7:], prompts[:1]} {
		a := servetest.Post[harnessAnswer](s, "/v1/completions", loglikelihoods(t, batch))
		contexts := slices.Repeat([]int{len(shared)}, len(batch))
		sums, _ := a.parseLogprobs(t, contexts)
		for i, ids := range batch {
			own, _ := servetest.Truth(t, s.Model, ids)
			for j, x := range a.Choices[i].Logprobs.Token[1:len(ids)] {
				if *x != own[j+1] {
					t.Fatalf("token %d has %v, want %v", j+1, *x, own[j+1])
				}
			}
			if sum := own[len(shared)] + own[len(shared)+1] + own[len(shared)+2]; sums[i] != sum {
				t.Errorf("got the sum %v, want %v", sums[i], sum)
			}
		}
	}
	want += 8 * 13 // the other seven, and the repeated one, from the last multiple on
	if got := read.Load(); got != want {
		t.Errorf("%d ids were read, want %d", got, want)
	}
}
