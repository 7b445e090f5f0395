package bench

import (
	"context"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
)

// sessionCases measure the tokens/s of a scheduler for 1, 4, 16 and 64 sessions together, including sampling, for
// H3-125M, Mamba-130M and a GPT after a context of 256. The fields are tokens_per_s; over_one, its ratio to that of one
// session, measured in turn; state_mb, what a token reads and writes of its session's state; bound_tokens_per_s, what
// memory allows, measured in turn, if each step reads the weights once and reads and writes all states; bound_share,
// how much of it is reached; products_tokens_per_s, what the products of the weights alone would allow; and
// bound_over_one, what over_one would be if a step consisted of these products and the traffic of the states, one after
// the other, and nothing else. Times are wall times, since a scheduler also waits.
func sessionCases(shrink int) []Case {
	h3, gpt := hybridAndGPT(shrink)
	past := 256 / shrink
	var cases []Case
	for _, c := range []struct {
		name  string
		build func() (*model.Model, error)
	}{{"H3-hybrid", h3.build}, {"Mamba-130M", preset("mamba-130m", shrink)}, {"GPT", gpt.build}} {
		for _, p := range []engine.Precision{engine.BF16, engine.Int8} {
			for _, n := range []int{1, 4, 16, 64} {
				cases = append(cases, Case{
					ID: Row{{"bench", "sessions"}, {"model", c.name}, {"precision", p.String()},
						{"sessions", float64(n)}, {"context", float64(past)}},
					prepare: func(context.Context) (trial, error) {
						m, err := packed(c.build, p)
						if err != nil {
							return trial{}, err
						}
						weights := newPackedRows(map[engine.Precision]kernel.Precision{
							engine.BF16: kernel.BF16, engine.Int8: kernel.Int8}[p], n, matricesPastCaches, shrink)
						return servedTrial(m, weights, n, past, shrink)
					},
				})
			}
		}
	}
	return cases
}

// servedTokens is the number of tokens that each session samples in a call.
const servedTokens = 16

// servedTrial measures n sessions of m, each after past positions.
func servedTrial(m *model.Model, weights *packedRows, n, past, shrink int) (trial, error) {
	sessions := make([]*generate.Batch, n)
	for i := range sessions {
		sessions[i] = generate.NewBatch(m, 1)
		if err := fillPast(sessions[i].State(0), m, past); err != nil {
			return trial{}, err
		}
	}
	grows, _ := m.Growth()
	seen := grows * past // keys and values are only read
	traffic := float64(2*sessions[0].StateSize() - seen)
	memory := newMemory(shrink)
	o := generate.DefaultOptions().Options
	drawn := func(some []*generate.Batch) func() error { return serving(m, some, servedTokens, o) }
	runs := []func() error{drawn(sessions), drawn(sessions[:1]), memory.read, weights.multiply}
	return trial{runs: runs, fields: func(t []Timing) Row {
		many, one := float64(n*servedTokens)/t[0].Wall, servedTokens/t[1].Wall
		bytes := memory.gigabytes() / t[2].Wall * 1e9
		bound := bytes * float64(n) / (float64(m.Bytes()) + float64(n)*traffic)
		products := float64(n*weights.bytes()) / (t[3].Wall * float64(m.Bytes()))
		work := 1 / (1/products + traffic/bytes)
		return Row{{"tokens_per_s", rounded(many)}, {"over_one", rounded(many / one)},
			{"bound_over_one", rounded(work / one)},
			{"state_mb", rounded(traffic / 1e6)}, {"bound_tokens_per_s", rounded(bound)},
			{"bound_share", rounded(many / bound)},
			{"products_tokens_per_s", rounded(products)}}
	}}, nil
}

// serving returns a function in which a scheduler samples tokens for forks of the sessions. The start and end of a
// call, with a copy of each state, take about a hundredth of its time.
func serving(m *model.Model, sessions []*generate.Batch, tokens int, o sample.Options) func() error {
	return func() error {
		s := session.NewScheduler(m, session.SchedulerOptions{Running: len(sessions)})
		defer s.Close()
		return inParallel(len(sessions), func(i int) error {
			return s.Run(context.Background(), drawing(sessions[i].Fork(), tokens, o, uint64(i)))
		})
	}
}

// drawing returns a request that reads one token, then samples and reads others, left tokens in all.
func drawing(s *generate.Batch, left int, o sample.Options, seed uint64) *session.Request {
	o.Seed = seed
	sampler, err := sample.New(o)
	return &session.Request{
		Session: s, Segments: []session.Segment{{IDs: []int32{1}}},
		Next: func(logits []float32) (id int32, more bool, _ error) {
			if left--; left == 0 || err != nil {
				return 0, false, err
			}
			id, err = sampler.Next(logits, nil)
			return id, true, err
		},
	}
}
