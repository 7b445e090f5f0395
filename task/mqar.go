package task

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// MQAR is multi-query associative recall, of "Zoology" (arXiv:2312.04927, §3 and Appendix E). A sequence starts with
// pairs of a key and a value and then asks for every key once, at positions that are not adjacent:
//
//	a 7 b 9 0 0 b 0 0 0 a 0    asks for 9 at the second b and for 7 at the second a
//
// Tokens 1 to vocab/2-1 are keys and the rest values. No two pairs of a sequence have the same key or the same value.
// Queries are at even positions after the pairs. Slot g of these positions is drawn with a probability proportional to
// (g+1)^(power-1), as words in text recur soon or never. The other positions hold zeros or, with noise, random tokens.
//
// The numbers of pairs cycle through min_pairs, twice that and so on up to max_pairs. The accuracy is reported for each
// number of pairs, and for queries by their distance from the pair. The official settings, each one curve of Figure 2,
// are mqar(vocab=8192,length=64,min_pairs=4,max_pairs=4,train=100000,test=3000), the same with 128 and 8, and with 256
// and 16. The default vocabulary is smaller, which makes the task easier for all models.
var MQAR = &Task{
	Name: "mqar", Group: "synthetic",
	About:  "pairs of a key and a value, then all keys again: which value does each have?",
	Source: "Zoology, arXiv:2312.04927; data as in github.com/HazyResearch/zoology, zoology/data/multiquery_ar.py",
	Options: func() any {
		return &mqarOptions{Vocab: 256, Length: 64, MinPairs: 2, MaxPairs: 16, Power: 0.01, Train: 20000, Test: 1500}
	},
	Open: func(_ context.Context, _ string, options any) (*Set, error) { return options.(*mqarOptions).open() },
}

type mqarOptions struct {
	Vocab    int     `json:"vocab" help:"tokens: half of them keys, half values" min:"4" max:"1048576"`
	Length   int     `json:"length" help:"tokens of a sequence, at least four for each pair" min:"4" max:"65536"`
	MinPairs int     `json:"min_pairs" help:"the fewest pairs of a sequence" min:"1" max:"1024"`
	MaxPairs int     `json:"max_pairs" help:"the most" min:"1" max:"1024"`
	Power    float64 `json:"power" help:"distance of queries: 1 is uniform, less is nearer" min:"0.001" max:"16"`
	Noise    bool    `json:"noise" help:"fill the space between queries with random tokens instead of zeros"`
	Train    int     `json:"train" help:"sequences to train on" min:"1" max:"100000000"`
	Test     int     `json:"test" help:"sequences to test on" min:"1" max:"1000000"`
	Seed     uint64  `json:"seed" help:"seed of the data"`
}

func (o *mqarOptions) open() (*Set, error) {
	if o.MaxPairs < o.MinPairs {
		return nil, fmt.Errorf("max_pairs: found %d, want at least min_pairs, which is %d", o.MaxPairs, o.MinPairs)
	}
	numbers := o.numbersOfPairs()
	most := numbers[len(numbers)-1]
	if 4*most > o.Length {
		return nil, fmt.Errorf("length: found %d, want at least %d, for %d pairs and a query of each",
			o.Length, 4*most, most)
	}
	if o.Vocab/2-1 < most {
		return nil, fmt.Errorf("vocab: found %d, want at least %d, for %d different keys", o.Vocab, 2*most+2, most)
	}
	s := &Set{Vocab: o.Vocab, Outputs: o.Vocab, Everywhere: true, MaxLength: o.Length}
	for _, n := range numbers {
		s.Tags = append(s.Tags, fmt.Sprintf("%d pairs", n))
	}
	for _, d := range o.distances() {
		s.Tags = append(s.Tags, fmt.Sprintf("distance %d to %d", d, 2*d-1))
	}
	split := func(stream uint64, n int, tag func(pairs, distance int) int32) Split {
		return &drawn{n, o.Seed, stream, func(rng *rand.Rand, i int, ex *Example) {
			pairs := i % len(numbers)
			o.draw(rng, numbers[pairs], func(distance int) int32 { return tag(pairs, distance) }, ex)
		}}
	}
	byPairs := func(pairs, _ int) int32 { return int32(pairs) }
	byDistance := func(_, distance int) int32 { return int32(len(numbers) + bits.Len(uint(distance)) - 1) }
	s.Train = split(trainStream, o.Train, byPairs)
	s.Test = split(testStream, o.Test, byPairs)
	s.Extra = []Extra{{Name: "by distance", Split: split(testStream, o.Test, byDistance)}} // the same sequences
	return s, nil
}

// numbersOfPairs returns the numbers of pairs that sequences can have.
func (o *mqarOptions) numbersOfPairs() []int {
	var out []int
	for n := o.MinPairs; n <= o.MaxPairs; n *= 2 {
		out = append(out, n)
	}
	return out
}

// distances returns the lower limits, powers of two, of the groups of distances between a key and its query.
func (o *mqarOptions) distances() []int {
	var out []int
	for d := 1; d < o.Length; d *= 2 {
		out = append(out, d)
	}
	return out
}

// draw sets ex to a sequence with the given number of pairs. tag returns the tag of a query, given its distance from
// its pair.
func (o *mqarOptions) draw(rng *rand.Rand, pairs int, tag func(distance int) int32, ex *Example) {
	half := int32(o.Vocab / 2)
	drawn := distinctInts(rng, make([]int32, 0, 2*pairs), pairs, 1, half)
	drawn = distinctInts(rng, drawn, pairs, half, int32(o.Vocab))
	keys, values := drawn[:pairs], drawn[pairs:]
	for i := range pairs {
		ex.Tokens = append(ex.Tokens, keys[i], values[i])
	}
	for range o.Length - 2*pairs {
		var filler int32
		if o.Noise {
			filler = rng.Int32N(int32(o.Vocab))
		}
		ex.Tokens = append(ex.Tokens, filler)
	}
	for range o.Length {
		ex.Targets = append(ex.Targets, Ignore)
		ex.Tags = append(ex.Tags, Ignore)
	}
	for i, slot := range o.slots(rng, pairs) {
		at := 2 * (pairs + slot)
		ex.Tokens[at], ex.Targets[at], ex.Tags[at] = keys[i], values[i], tag(at-2*i)
	}
}

// slots draws n different slots with probabilities p_g proportional to (g+1)^(power-1), one after another. The n
// smallest values of E_g/p_g, with exponentially distributed E_g, are such a sample (Efraimidis and Spirakis,
// Information Processing Letters 97, 2006).
func (o *mqarOptions) slots(rng *rand.Rand, n int) []int {
	all := make([]int, (o.Length-2*n)/2)
	arrival := make([]float64, len(all))
	for g := range all {
		all[g] = g
		arrival[g] = rng.ExpFloat64() * math.Pow(float64(g+1), 1-o.Power)
	}
	slices.SortFunc(all, func(a, b int) int { return cmp.Compare(arrival[a], arrival[b]) })
	return all[:n]
}
