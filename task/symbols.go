package task

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// The synthetic languages of "Hungry Hungry Hippos" (arXiv:2212.14052, §3.1), as made by the authors' repository:
// src/dataloaders/synthetics.py of github.com/HazyResearch/safari. A vocabulary of n symbols is sorted as strings: ".",
// which the settings of the paper never use, is token 0, the numbers "0", "1", "10", ... are tokens 1 to n-2, and the
// trigger "=>" is n-1.

// SymbolOptions are the options of the tasks of such a language.
type SymbolOptions struct {
	Vocab  int    `json:"vocab" help:"symbols, two of which are special" min:"4" max:"65536"`
	Length int    `json:"length" help:"symbols before the question" min:"2" max:"65536"`
	Longer int    `json:"longer" help:"also test at 2, 4, ... up to so many times the length; 1: not" min:"1" max:"64"`
	Train  int    `json:"train" help:"sequences to train on" min:"1" max:"1000000"`
	Valid  int    `json:"valid" help:"sequences to choose by; 0: none, as published" min:"0" max:"1000000"`
	Test   int    `json:"test" help:"sequences to test on" min:"1" max:"1000000"`
	Loss   string `json:"loss" help:"learn all, what follows from others, or the answer" enum:"all,known,answer"`
	Seed   uint64 `json:"seed" help:"seed of the data"`
}

// trigger is the token that the question begins with.
func (o *SymbolOptions) trigger() int32 { return int32(o.Vocab - 1) }

// Streams of random numbers, one for each split.
const (
	trainStream = iota + 1
	validStream
	testStream
	longerStream
)

// sentence appends a sequence of the given length, the question and the answer to tokens.
type sentence func(rng *rand.Rand, length int, tokens []int32) []int32

// key is what the symbol after position i of a sequence follows from, if it was there before; nil if from nothing.
type key func(tokens []int32, i int) []int32

// set creates the splits. asked is the number of symbols of the question.
func (o *SymbolOptions) set(asked int, draw sentence, of key) (*Set, error) {
	s := &Set{Vocab: o.Vocab, Outputs: o.Vocab, Everywhere: true, MaxLength: o.Length + asked}
	train, err := o.distinct(trainStream, o.Train, o.Length, o.Loss != "answer", draw)
	if err != nil {
		return nil, err
	}
	if s.Train = train; o.Loss == "known" {
		for _, ex := range train {
			ex.keepKnown(of)
		}
	}
	if o.Valid > 0 {
		if s.Valid, err = o.distinct(validStream, o.Valid, o.Length, false, draw); err != nil {
			return nil, err
		}
	}
	if s.Test, err = o.distinct(testStream, o.Test, o.Length, false, draw); err != nil {
		return nil, err
	}
	for times := 1; times < o.Longer; {
		times = min(2*times, o.Longer)
		length := times * o.Length
		longer, err := o.distinct(longerStream, o.Test, length, false, draw)
		if err != nil {
			return nil, err
		}
		s.Extra = append(s.Extra, Extra{Name: "length " + strconv.Itoa(length), Split: longer})
	}
	return s, nil
}

// patience is the number of sequences drawn per distinct one before the language counts as too small.
const patience = 100

// distinct draws n sequences that differ from each other, as the official splits do. Each becomes an example: its input
// is all symbols but the last, and its targets are the next symbols, at every position if all is set, otherwise at the
// last position only.
func (o *SymbolOptions) distinct(stream uint64, n, length int, all bool, draw sentence) (Examples, error) {
	rng := rand.New(rand.NewPCG(o.Seed, stream))
	examples := make(Examples, 0, n)
	seen := make(map[string]bool, n)
	var tokens []int32
	var key []byte
	for drawn := 0; len(examples) < n; drawn++ {
		if drawn == patience*n {
			return nil, fmt.Errorf("vocab=%d, length=%d: found %d different sequences, want %d",
				o.Vocab, length, len(examples), n)
		}
		tokens = draw(rng, length, tokens[:0])
		key = key[:0]
		for _, t := range tokens {
			key = append(key, byte(t), byte(t>>8))
		}
		if seen[string(key)] {
			continue
		}
		seen[string(key)] = true
		examples = append(examples, nextSymbol(tokens, all))
	}
	return examples, nil
}

// keepKnown ignores all targets whose key has not been there before.
func (ex *Example) keepKnown(of key) {
	before := map[string]bool{}
	for i := range ex.Targets {
		k := of(ex.Tokens, i)
		if name := fmt.Sprint(k); k == nil || !before[name] {
			before[name], ex.Targets[i] = true, Ignore
		}
	}
}

// nextSymbol is the example of a sequence: see distinct.
func nextSymbol(tokens []int32, all bool) Example {
	last := len(tokens) - 1
	memory := make([]int32, 2*last)
	ex := Example{Tokens: memory[:last:last], Targets: memory[last:]}
	copy(ex.Tokens, tokens)
	copy(ex.Targets, tokens[1:])
	if !all {
		for i := range ex.Targets[:last-1] {
			ex.Targets[i] = Ignore
		}
	}
	return ex
}
