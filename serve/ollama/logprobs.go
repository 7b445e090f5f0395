package ollama

import (
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
)

// tokenLogprob is the log-probability of a token.
type tokenLogprob struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logprob"`
	Bytes   []int   `json:"bytes,omitempty"`
}

// logprob is the log-probability of a token of a reply, with those of the most probable tokens at its position.
type logprob struct {
	tokenLogprob
	Top []tokenLogprob `json:"top_logprobs,omitempty"`
}

// score records the log-probabilities of a piece, if they are wanted. It omits the token that ends a reply.
func (q *chatJob) score(p reply.Piece) {
	if q.tokens == nil {
		return
	}
	tokens := q.tokens.Take(p)
	if p.End == generate.EndText && len(tokens) > 0 {
		tokens = tokens[:len(tokens)-1]
	}
	for _, t := range tokens {
		one := logprob{tokenLogprob: q.logprob(t.ID, t.LogProb)}
		for _, other := range t.Top {
			one.Top = append(one.Top, q.logprob(other.ID, other.LogProb))
		}
		q.scored = append(q.scored, one)
	}
}

func (q *chatJob) logprob(id int32, logProb float64) tokenLogprob {
	m := q.job.Model
	out := tokenLogprob{Token: m.TokenText(id), LogProb: host.JSONLogProb(logProb)}
	for _, x := range m.Tokenizer.Decode(nil, []int32{id}) {
		out.Bytes = append(out.Bytes, int(x))
	}
	return out
}
