package openai

import (
	"strconv"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// promptScores is vLLM's field that requests the log-probabilities of a prompt's tokens and a number of alternatives.
type promptScores struct {
	PromptLogprobs *int `json:"prompt_logprobs"`
}

// promptLogprob is the log-probability of a token, and its rank among all tokens.
type promptLogprob struct {
	LogProb float64 `json:"logprob"`
	Rank    int     `json:"rank"`
	Text    string  `json:"decoded_token"`
}

// score makes a job score its prompts, if requested.
func (q *promptScores) score(job *reply.Job, streams bool) error {
	if q.PromptLogprobs == nil {
		return nil
	}
	var c request.Checks
	c.Range(*q.PromptLogprobs, 0, reply.MaxTop, "prompt_logprobs")
	c.That(!streams, "prompt_logprobs", "found %d and stream, want either: a stream has none", *q.PromptLogprobs)
	job.Score, job.ScoreOf = true, host.Wanted{Top: *q.PromptLogprobs, Ranks: true}
	return c.Err
}

// of returns the scores of a prompt: for each token a map with the token and its alternatives by id, null for the first
// token. It returns nil if they were not requested.
func (q *promptScores) of(m *host.Model, tokens []host.Token) []map[string]promptLogprob {
	if q.PromptLogprobs == nil {
		return nil
	}
	out := make([]map[string]promptLogprob, len(tokens))
	for i, t := range tokens {
		if !t.Known {
			continue
		}
		out[i] = map[string]promptLogprob{}
		add := func(id int32, logProb float64, rank int) {
			out[i][strconv.Itoa(int(id))] = promptLogprob{host.JSONLogProb(logProb), rank, m.TokenText(id)}
		}
		for j, other := range t.Top[:min(*q.PromptLogprobs, len(t.Top))] {
			add(other.ID, other.LogProb, j+1)
		}
		add(t.ID, t.LogProb, int(t.Rank))
	}
	return out
}
