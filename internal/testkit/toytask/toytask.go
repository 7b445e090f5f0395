// Package toytask makes small sets of labelled sequences of every kind, for tests of code that trains on them.
package toytask

import (
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/task"
)

// withLengths holds examples of different lengths.
type withLengths struct{ task.Examples }

func (e withLengths) Length(i int) int {
	return max(len(e.Examples[i].Tokens), len(e.Examples[i].Second))
}

// Made returns a set of the given kind that a small model learns within seconds.
func Made(kind string) *task.Set {
	rng := rand.New(rand.NewPCG(7, 8))
	draw := map[string]func() task.Example{
		// Which of two tokens stands first? Any number of other tokens follow.
		"class": func() task.Example {
			ex := task.Example{Targets: []int32{rng.Int32N(2)}}
			ex.Tokens = append(ex.Tokens, ex.Targets[0])
			for range rng.IntN(9) {
				ex.Tokens = append(ex.Tokens, 2+rng.Int32N(3))
			}
			return ex
		},
		// Do both sequences begin with the same token?
		"pairs": func() task.Example {
			a, b := rng.Int32N(2), rng.Int32N(2)
			ex := task.Example{Tokens: []int32{a, 2, 3}, Second: []int32{b, 4}, Targets: []int32{0}}
			if a == b {
				ex.Targets[0] = 1
			}
			return ex
		},
		// What was the last token but one? Tags distinguish even and odd positions.
		"tokens": func() task.Example {
			var ex task.Example
			for i := range 12 {
				ex.Tokens = append(ex.Tokens, rng.Int32N(5))
				ex.Tags = append(ex.Tags, int32(i%2))
				ex.Targets = append(ex.Targets, task.Ignore)
				if i > 0 {
					ex.Targets[i] = ex.Tokens[i-1]
				}
			}
			return ex
		},
		// The last three of eight numbers, shifted by one position.
		"numbers": func() task.Example {
			var ex task.Example
			for range 8 {
				ex.Values = append(ex.Values, float32(rng.NormFloat64()))
			}
			ex.Numbers = append(ex.Numbers, ex.Values[4:7]...)
			return ex
		},
	}[kind]
	split := func(n int) task.Split {
		e := make(task.Examples, n)
		for i := range e {
			e[i] = draw()
		}
		if kind == "class" {
			return withLengths{e}
		}
		return e
	}
	s := &task.Set{Train: split(300), Valid: split(50), Test: split(100), MaxLength: 12}
	switch kind {
	case "class":
		s.Vocab, s.Outputs = 5, 2
	case "pairs":
		s.Vocab, s.Outputs, s.Pairs = 5, 2, true
	case "tokens":
		s.Vocab, s.Outputs, s.Everywhere, s.Tags = 5, 5, true, []string{"even", "odd"}
	case "numbers":
		s.Channels, s.Outputs, s.Everywhere, s.Numbers = 1, 1, true, true
		s.Forecast = &task.Forecast{Series: []string{"noise"}, Unit: "deviations", Step: "steps"}
	}
	s.Extra = []task.Extra{{Name: "again", Split: s.Test, Published: 12}}
	return s
}
