package bench

import (
	"context"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/generate"
)

// scaleCases measure how the cost grows with length, for a model of one H3 layer of width 256 on bytes. Mode "train" is
// forward and backward of one sequence of length l, with the memory of its activations (for 1M tokens at width 64, 8
// GB). Mode "decode" is one more token after the model has read position tokens.
func scaleCases(shrink int) []Case {
	s := shape{d: max(1, 256/shrink), layers: 1, vocab: 256, heads: 1}
	var cases []Case
	narrow := s
	narrow.d = max(1, 64/shrink)
	for e := 10; e <= 18; e++ {
		s, l := s, 1<<e
		if e > 16 {
			s, l = narrow, 1<<(16+4*(e-17)) // the same width at 64k for comparison
		}
		l /= shrink
		cases = append(cases, Case{
			ID: Row{{"bench", "scale"}, {"mode", "train"}, {"d", float64(s.d)}, {"l", float64(l)},
				{"precision", float32Only}},
			prepare: func(context.Context) (trial, error) {
				m, err := s.build()
				if err != nil {
					return trial{}, err
				}
				st := newStepper(m, 1, l)
				return trial{runs: []func() error{st.gradient}, fields: func(t []Timing) Row {
					return Row{{"tokens_per_s", rounded(float64(l) / t[0].CPU)},
						{"activation_mb", rounded(float64(st.tape.Bytes()) / 1e6)}}
				}}, nil
			},
		})
	}
	for at := 1 << 10; at <= 1<<20; at *= 4 {
		at := at / shrink
		cases = append(cases, Case{
			ID: Row{{"bench", "scale"}, {"mode", "decode"}, {"d", float64(s.d)}, {"position", float64(at)},
				{"precision", float32Only}},
			prepare: func(ctx context.Context) (trial, error) {
				m, err := s.build()
				if err != nil {
					return trial{}, err
				}
				session := generate.NewBatch(m, 1)
				if err := read(ctx, session, at); err != nil {
					return trial{}, err
				}
				return trial{runs: []func() error{decoding(session)}, fields: func(t []Timing) Row {
					return Row{{"tokens_per_s", rounded(1 / t[0].CPU)}}
				}}, nil
			},
		})
	}
	return cases
}

// read feeds n random tokens.
func read(ctx context.Context, s *generate.Batch, n int) error {
	const piece = 1 << 14
	rng := rand.New(rand.NewPCG(1, 9))
	for ; n > 0; n -= piece {
		if err := s.Feed(ctx, randomIDs(rng, min(n, piece), s.Model().Config.VocabSize)); err != nil {
			return err
		}
	}
	return nil
}
