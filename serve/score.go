package serve

import (
	"context"
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/session"
)

// scored is a token with its log-probability after those before it, and the most probable ones in its place.
type scored struct {
	id      int32
	known   bool // not so for the first of a text
	logProb float64
	top     []sample.TokenProb
}

// score gives an id its log-probability, and the top most probable ones.
func score(logits []float32, id int32, top int) (scored, error) {
	p, err := sample.LogProbsOf(logits)
	if err != nil {
		return scored{}, err
	}
	return scored{id, true, p.Of(id), p.Top(top)}, nil
}

// leastLogProb stands for the log-probability of what cannot be, which JSON has no number for. OpenAI has the same.
const leastLogProb = -9999

// number is a log-probability in JSON.
func number(logProb float64) float64 {
	if math.IsInf(logProb, -1) {
		return leastLogProb
	}
	return logProb
}

// openScored is open, with every id scored.
func (m *Model) openScored(ctx context.Context, ids []int32, top int, client string) (*generate.Session, []scored,
	error) {
	out := make([]scored, len(ids))
	out[0] = scored{id: ids[0]}
	s := generate.NewSession(m.net, 1)
	s.Chunk = session.Chunk(m.net)
	var broken error
	err := m.runner.Run(ctx, &session.Request{
		Session: s, Segments: []session.Segment{{IDs: ids}}, Client: client,
		Each: func(at int, logits []float32) {
			if next := at + 1; next < len(ids) && broken == nil {
				out[next], broken = score(logits, ids[next], top)
			}
		},
	})
	if err == nil {
		err = broken
	}
	return s, out, err
}

// topByText are the most probable tokens in a place by their texts, and the token that stands there. Tokens that have
// the same text stay apart: those after the first are named by their numbers.
func (m *Model) topByText(t scored) map[string]float64 {
	out := make(map[string]float64, len(t.top)+1)
	own := false
	add := func(id int32, logProb float64) {
		text := m.tokenText(id)
		if _, taken := out[text]; taken {
			text = fmt.Sprintf("token_id:%d", id)
		}
		out[text] = number(logProb)
		own = own || id == t.id
	}
	for _, other := range t.top {
		add(other.ID, other.LogProb)
	}
	if !own {
		add(t.id, t.logProb)
	}
	return out
}
