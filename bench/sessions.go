package bench

import (
	"context"
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
)

// sessionCases measure how many tokens/s a scheduler gives to 1, 4, 16 and 64 sessions together, drawing included, for
// H3-125M, Mamba-130M and a GPT after a context of 256. The fields are tokens_per_s; over_one, how many times that of
// one session, measured in turn; state_mb, what a token reads and writes of its session's state; bound_tokens_per_s,
// what memory allows, measured in turn, where each step reads the weights once and passes over all states;
// bound_share, how much of it is reached; products_tokens_per_s, what the products of the weights alone would allow;
// and bound_over_one, what over_one would be if a step were these products and the traffic of the states, one after the
// other, and nothing else. Times are by the clock, since a scheduler also waits.
func sessionCases(shrink int) []Case {
	h3 := shape{d: 768 / shrink, layers: 12, vocab: 50264 / shrink, heads: 12, attention: []int{6}}
	gpt := h3
	gpt.attention = h3.all()
	past := 256 / shrink
	var cases []Case
	for _, c := range []struct {
		name  string
		build func() (*model.Model, error)
	}{{"H3-hybrid", h3.build}, {"Mamba-130M", func() (*model.Model, error) { return smaller("mamba-130m", shrink) }},
		{"GPT", gpt.build}} {
		for _, p := range []engine.Precision{engine.BF16, engine.Int8} {
			for _, n := range []int{1, 4, 16, 64} {
				cases = append(cases, Case{
					ID: Row{{"bench", "sessions"}, {"model", c.name}, {"precision", p.String()},
						{"sessions", float64(n)}, {"context", float64(past)}},
					prepare: func(context.Context) (trial, error) {
						m, err := c.build()
						if err != nil {
							return trial{}, err
						}
						if err := m.Pack(p); err != nil {
							return trial{}, err
						}
						weights := newPackedRows(map[engine.Precision]kernel.Precision{
							engine.BF16: kernel.BF16, engine.Int8: kernel.Int8}[p], n, shrink)
						return servedTrial(m, weights, n, past, shrink)
					},
				})
			}
		}
	}
	return cases
}

// servedTokens is how many tokens each session draws in a call.
const servedTokens = 16

// servedTrial measures n sessions of m, after past positions each.
func servedTrial(m *model.Model, weights *packedRows, n, past, shrink int) (trial, error) {
	sessions := make([]*generate.Batch, n)
	for i := range sessions {
		sessions[i] = generate.NewBatch(m, 1)
		if err := fillPast(sessions[i].State(0), m, past); err != nil {
			return trial{}, err
		}
	}
	grows, _ := m.Growth()
	seen := grows * past // keys and values are read only
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

// serving has a scheduler write so many tokens after each of the sessions, which stay where they are, drawn with some
// options. What begins and ends a call, a copy of each state among it, is about a hundredth of its time.
func serving(m *model.Model, sessions []*generate.Batch, tokens int, o sample.Options) func() error {
	return func() error {
		s := session.NewScheduler(m, session.SchedulerOptions{Running: len(sessions)})
		defer s.Close()
		errs := make([]error, len(sessions))
		var all sync.WaitGroup
		for i, one := range sessions {
			all.Go(func() { errs[i] = s.Run(context.Background(), drawing(one.Fork(), tokens, o, uint64(i))) })
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// drawing is a request that reads one token, then draws and reads others: as many as left in all.
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
