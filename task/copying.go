package task

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
)

// SelectiveCopying asks for the data tokens, in order, of a sequence that is mostly noise (Mamba, arXiv:2312.00752,
// §4.1.1 and Appendix E.1):
//
//	0 3 0 0 7 0 5 0 ⊢ ⊢ ⊢    asks for 3, 7, 5
//
// Noise is token 0, the marker that asks is vocab-1, and data are the tokens between. The positions of the data vary,
// so convolutions with fixed kernels cannot solve the task. The paper's setting is
// selective-copying(length=4096,train=25600000), each sequence used once, in batches of 64. The default suits a laptop.
var SelectiveCopying = &Task{
	Name: "selective-copying", Group: "synthetic",
	About: "a few data tokens at random places among noise, then markers: which were they, in order?",
	Source: "Mamba, arXiv:2312.00752, §4.1.1; data as in github.com/state-spaces/s4, " +
		"src/dataloaders/datasets/copying.py",
	Options: func() any {
		return &copyingOptions{Vocab: 16, Length: 256, Data: 16, Longer: 2, Train: 64000, Test: 500}
	},
	Open: func(_ context.Context, _ string, options any) (*Set, error) { return options.(*copyingOptions).open() },
}

type copyingOptions struct {
	Vocab  int    `json:"vocab" help:"tokens, with the noise and the marker" min:"3" max:"65536"`
	Length int    `json:"length" help:"tokens before the markers" min:"1" max:"1048576"`
	Data   int    `json:"data" help:"data tokens among them" min:"1" max:"65536"`
	Longer int    `json:"longer" help:"also test at this many times the length; 1: do not" min:"1" max:"64"`
	Train  int    `json:"train" help:"sequences to train on" min:"1" max:"100000000"`
	Test   int    `json:"test" help:"sequences to test on" min:"1" max:"1000000"`
	Seed   uint64 `json:"seed" help:"seed of the data"`
}

func (o *copyingOptions) open() (*Set, error) {
	if o.Data > o.Length {
		return nil, fmt.Errorf("data: found %d, want at most length, which is %d", o.Data, o.Length)
	}
	split := func(stream uint64, n, length int) Split {
		return &drawn{n, o.Seed, stream, func(rng *rand.Rand, _ int, ex *Example) { o.draw(rng, length, ex) }}
	}
	s := &Set{
		Vocab: o.Vocab, Outputs: o.Vocab, Everywhere: true, MaxLength: o.Length + o.Data,
		Train: split(trainStream, o.Train, o.Length), Test: split(testStream, o.Test, o.Length),
	}
	if o.Longer > 1 {
		length := o.Longer * o.Length
		s.Extra = []Extra{{Name: fmt.Sprintf("length %d", length), Split: split(longerStream, o.Test, length)}}
	}
	return s, nil
}

// draw sets ex to a sequence with length tokens before its markers.
func (o *copyingOptions) draw(rng *rand.Rand, length int, ex *Example) {
	places := distinctInts(rng, make([]int32, 0, o.Data), o.Data, 0, int32(length))
	slices.Sort(places)
	for range length {
		ex.Tokens = append(ex.Tokens, 0)
		ex.Targets = append(ex.Targets, Ignore)
	}
	for _, at := range places {
		data := 1 + rng.Int32N(int32(o.Vocab-2))
		ex.Tokens[at] = data
		ex.Tokens = append(ex.Tokens, int32(o.Vocab-1))
		ex.Targets = append(ex.Targets, data)
	}
}
