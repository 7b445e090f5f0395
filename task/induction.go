package task

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// InductionHead asks for the symbol that followed the trigger in a sequence of random symbols ("Hungry Hungry Hippos",
// §3.1, Table 1):
//
//	a b c ⊢ d e f ... ⊢    asks for d
//
// The position of the trigger is drawn from [0, length-2). In the paper it occurs once. The released generator can show
// it several times, each with the same answer:
//
//	a ⊢ d e f ⊢ d g ... ⊢    asks for d
//
// With num_triggers above 1, half of the sequences still have one trigger. For the others, num_triggers positions are
// drawn. A position is dropped if it is the position of the previous trigger or of that trigger's answer.
var InductionHead = &Task{
	Name: "induction", Group: "synthetic",
	About:  "random symbols with one trigger among them, then the trigger again: which symbol followed it?",
	Source: "Hungry Hungry Hippos, arXiv:2212.14052, §3.1; data as in github.com/HazyResearch/safari",
	Options: func() any {
		symbols := SymbolOptions{Vocab: 20, Length: 30, Longer: 2, Train: 5000, Test: 500, Loss: "all"}
		return &InductionOptions{symbols, 1}
	},
	Open: func(_ context.Context, _ string, options any) (*Set, error) {
		o := options.(*InductionOptions)
		s, err := o.set(1, o.draw, func(tokens []int32, i int) []int32 {
			if tokens[i] != o.trigger() {
				return nil
			}
			return tokens[i : i+1]
		})
		if err == nil {
			o.tag(s)
		}
		return s, err
	},
}

// tag groups the questions of a length by the distance to the last trigger: up to the training length, then up to twice
// that, and so on. The groups show whether a model fails because of longer sequences or because of longer distances.
func (o *InductionOptions) tag(s *Set) {
	splits := []Split{s.Test}
	for _, x := range s.Extra {
		splits = append(splits, x.Split)
	}
	for _, split := range splits {
		length, first := len(split.(Examples)[0].Tokens)-1, len(s.Tags)
		for near, far := 1, o.Length; near <= length; near, far = far+1, 2*far {
			s.Tags = append(s.Tags, fmt.Sprintf("length %d, distance %d to %d", length, near, min(far, length)))
		}
		for i := range split.(Examples) {
			ex := &split.(Examples)[i]
			at := length - 1
			for ex.Tokens[at] != o.trigger() {
				at--
			}
			ex.Tags = slices.Repeat([]int32{Ignore}, length+1)
			ex.Tags[length] = int32(first + bits.Len(uint((length-at-1)/o.Length)))
		}
	}
}

// InductionOptions holds the options of InductionHead.
type InductionOptions struct {
	SymbolOptions
	Triggers int `json:"num_triggers" help:"how often the trigger is shown, at most; 1 in the paper" min:"1" max:"1024"`
}

// draw generates a sequence. It implements sentence.
func (o *InductionOptions) draw(rng *rand.Rand, length int, tokens []int32) []int32 {
	for range length {
		tokens = append(tokens, 1+rng.Int32N(int32(o.Vocab-2)))
	}
	places := o.places(rng, length)
	answer := tokens[places[0]+1]
	for _, at := range places {
		tokens[at], tokens[at+1] = o.trigger(), answer
	}
	return append(tokens, o.trigger(), answer)
}

// places draws the positions of the triggers in ascending order. Each is at least 2 before the end, so that no answer
// is next to the question, and after the answer of the previous trigger.
func (o *InductionOptions) places(rng *rand.Rand, length int) []int {
	n := 1
	if o.Triggers > 1 && rng.IntN(2) == 0 {
		n = o.Triggers
	}
	drawn := make([]int, n)
	for i := range drawn {
		drawn[i] = rng.IntN(max(length-2, 1))
	}
	slices.Sort(drawn)
	places := drawn[:1]
	for _, at := range drawn[1:] {
		if at > places[len(places)-1]+1 {
			places = append(places, at)
		}
	}
	return places
}
