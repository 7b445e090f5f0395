package session

import (
	"context"
	"sync"

	"github.com/hippo-ssm/hippo/generate/sample"
)

// sideBySide is the number of endings or texts processed at a time, so that a Scheduler can batch them.
const sideBySide = 16

// Score returns the log-probability of every id of each ending. Each ending is read as one segment after the text. The
// session does not change, and the text is not read again.
func (s *Session) Score(ctx context.Context, endings ...[]int32) ([][]float32, error) {
	for _, ids := range endings {
		if err := s.check(ids); err != nil {
			return nil, err
		}
	}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	at := s.Snapshot()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out, places := make([][]float32, len(endings)), make(chan struct{}, sideBySide)
	var all sync.WaitGroup
	for i, ids := range endings {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			var err error
			if out[i], err = s.score(ctx, at, ids); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return out, nil
}

// score returns the log-probabilities of ids that follow a snapshot.
func (s *Session) score(ctx context.Context, at *Snapshot, ids []int32) ([]float32, error) {
	out := make([]float32, len(ids))
	if len(ids) == 0 {
		return out, ctx.Err()
	}
	if at.Logits == nil {
		return nil, errNoLogits
	}
	out[0] = float32(sample.LogProb(at.Logits, ids[0]))
	if len(ids) == 1 {
		return out, ctx.Err()
	}
	return out, s.o.Runner.Run(ctx, &Request{
		Session: s.from(at), Segments: []Segment{{IDs: ids[:len(ids)-1]}},
		Each: func(i int, logits []float32) { out[i+1] = float32(sample.LogProb(logits, ids[i+1])) },

		Client: s.o.Client, Priority: s.o.Priority,
	})
}
