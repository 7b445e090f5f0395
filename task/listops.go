package task

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// ListOps asks for the value of an expression of nested list operators on digits (Nangia and Bowman, arXiv:1804.06028),
// at the lengths of the Long Range Arena (arXiv:2011.04006, §2.2.1):
//
//	[MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]    asks for 5
//
// Expressions are drawn as in lra_benchmarks/data/listops.py of github.com/google-research/long-range-arena: each value
// is a list of 2 to max_args values with probability 1/4, if the depth allows it, and otherwise a digit. Expressions
// with other than the wanted lengths are dropped. The tokens are those of S4's repository, without parentheses. The
// official script removes repeated expressions. This one does not check for them, since there are none at its lengths.
var ListOps = &Task{
	Name: "listops", Group: "long range arena",
	About:  "nested lists with the operators MIN, MAX, MED and SM: which digit is the value?",
	Source: "Long Range Arena, arXiv:2011.04006; drawn as by its lra_benchmarks/data/listops.py",
	Files: "none, or with files=true basic_train.tsv, " +
		"basic_val.tsv and basic_test.tsv of listops-1000 in the archive of the Long Range Arena, " + listOpsOrigin.url,
	Options: func() any {
		return &listOpsOptions{
			Train: 96000, Valid: 2000, Test: 2000, MinLength: 500, MaxLength: 2000, MaxDepth: 10, MaxArgs: 10,
		}
	},
	Open: func(ctx context.Context, dir string, options any) (*Set, error) {
		o := options.(*listOpsOptions)
		if o.Files {
			return readListOps(ctx, dir)
		}
		return o.open(ctx)
	},
}

type listOpsOptions struct {
	Files     bool   `json:"files" help:"read the published files and ignore the other options"`
	Train     int    `json:"train" help:"expressions to train on" min:"1" max:"1000000"`
	Valid     int    `json:"valid" help:"expressions to validate on" min:"0" max:"1000000"`
	Test      int    `json:"test" help:"expressions to test on" min:"1" max:"1000000"`
	MinLength int    `json:"min_length" help:"all are longer than this, counted in tokens" min:"0" max:"1000000"`
	MaxLength int    `json:"max_length" help:"all are shorter than this" min:"2" max:"1000000"`
	MaxDepth  int    `json:"max_depth" help:"how deep lists are nested, at most; a digit counts, too" min:"1" max:"64"`
	MaxArgs   int    `json:"max_args" help:"values of a list, at most" min:"2" max:"100"`
	Seed      uint64 `json:"seed" help:"seed of the expressions"`
}

// Wanted lengths must not be too rare: at least rareWanted of rareDraws expressions must have one.
const (
	rareDraws  = 100_000
	rareWanted = 10
)

func (o *listOpsOptions) open(ctx context.Context) (*Set, error) {
	if o.MaxLength < o.MinLength+2 {
		return nil, fmt.Errorf("max_length: found %d, want at least min_length + 2, which is %d",
			o.MaxLength, o.MinLength+2)
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	var tokens []int32
	for found, draws := 0, 0; found < rareWanted; draws++ {
		if draws == rareDraws {
			return nil, fmt.Errorf("min_length, max_length: "+
				"only %d of %d expressions are longer than %d and shorter than %d, with max_depth=%d and max_args=%d",
				found, draws, o.MinLength, o.MaxLength, o.MaxDepth, o.MaxArgs)
		}
		var ok bool
		if tokens, ok = o.attempt(rng, tokens); ok {
			found++
		}
	}
	s := &Set{Vocab: int(opTokens), Outputs: 10, Classes: numerals(10)}
	for _, part := range []struct {
		stream uint64
		n      int
		to     *Split
	}{{trainStream, o.Train, &s.Train}, {validStream, o.Valid, &s.Valid}, {testStream, o.Test, &s.Test}} {
		if part.n == 0 {
			continue
		}
		all := &expressions{}
		from := &drawn{part.n, o.Seed, part.stream, func(rng *rand.Rand, _ int, ex *Example) { o.draw(rng, ex) }}
		var ex Example
		for i := range part.n {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			from.Example(i, &ex)
			all.add(ex.Tokens, ex.Targets[0])
		}
		*part.to = all
		s.MaxLength = max(s.MaxLength, all.longest)
	}
	return s, nil
}

// draw sets ex to an expression of a wanted length.
func (o *listOpsOptions) draw(rng *rand.Rand, ex *Example) {
	for ok := false; !ok; {
		ex.Tokens, ok = o.attempt(rng, ex.Tokens)
	}
	value, _ := evaluate(ex.Tokens) // no error: expressions that are drawn are complete
	ex.Targets = append(ex.Targets, value)
}

// attempt draws an expression into the memory of tokens. It reports whether the length is one of those wanted.
func (o *listOpsOptions) attempt(rng *rand.Rand, tokens []int32) ([]int32, bool) {
	tokens, ok := o.tree(rng, 1, tokens[:0])
	return tokens, ok && len(tokens) > o.MinLength
}

// listProbability is the probability that a value is a list and not a digit.
const listProbability = 0.25

// tree appends a value at a depth. It stops and returns false if the expression becomes too long.
func (o *listOpsOptions) tree(rng *rand.Rand, depth int, tokens []int32) ([]int32, bool) {
	if depth == o.MaxDepth || rng.Float64() > listProbability {
		tokens = append(tokens, rng.Int32N(10))
		return tokens, len(tokens) < o.MaxLength
	}
	args := 2 + rng.IntN(o.MaxArgs-1)
	tokens = append(tokens, opMin+rng.Int32N(opEnd-opMin))
	for range args {
		var ok bool
		if tokens, ok = o.tree(rng, depth+1, tokens); !ok {
			return tokens, false
		}
	}
	tokens = append(tokens, opEnd)
	return tokens, len(tokens) < o.MaxLength
}
