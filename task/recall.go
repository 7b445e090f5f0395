package task

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// Recall asks for the value of a key that occurred before ("Hungry Hungry Hippos", §3.1, Table 1):
//
//	a 2 c 4 b 3 a 2 ... ⊢ b    asks for 3
//
// The lower half of the symbols are keys, the upper half values. Each sequence has its own map from keys to values. Two
// keys may have the same value. The key of the question is drawn from all keys. If it did not occur, it is drawn again
// from the keys that did. With keys=2, two symbols make a key.
//
// Extrapolation to twice the length is an experiment of the same paper: H3, trained at 20 symbols, keeps 98.4 % at 40.
var Recall = &Task{
	Name: "recall", Group: "synthetic",
	About:  "pairs of a key and a value, then a key: which value does it have?",
	Source: "Hungry Hungry Hippos, arXiv:2212.14052, §3.1; data as in github.com/HazyResearch/safari",
	Options: func() any {
		return &RecallOptions{SymbolOptions{Vocab: 10, Length: 20, Longer: 2, Train: 5000, Test: 500, Loss: "all"},
			1, 0}
	},
	Open: func(_ context.Context, _ string, options any) (*Set, error) {
		o := options.(*RecallOptions)
		s, err := o.open()
		if err == nil && o.Vocab == 10 && o.Length == 20 && o.Longer >= 2 && o.Keys == 1 && o.Shown == 0 {
			s.Extra[0].Published, s.Extra[0].Model = 98.4, "h3" // only for the setting of the paper
		}
		return s, err
	},
}

// RecallLarge is Recall with the larger of the two official settings.
var RecallLarge = &Task{
	Name: "recall-large", Group: "synthetic",
	About:  "associative recall with 9 keys and 9 values in 40 symbols",
	Source: "github.com/HazyResearch/safari, configs/experiment/synthetics/associative_recall",
	Options: func() any {
		return &RecallOptions{SymbolOptions{Vocab: 20, Length: 40, Longer: 2, Train: 5000, Test: 500, Loss: "all"},
			1, 0}
	},
	Open: func(_ context.Context, _ string, options any) (*Set, error) { return options.(*RecallOptions).open() },
}

// RecallOptions holds the options of Recall and RecallLarge.
type RecallOptions struct {
	SymbolOptions
	Keys  int `json:"keys" help:"symbols of a key" min:"1" max:"3"`
	Shown int `json:"shown" help:"how often each pair is shown; 0 to draw pairs, as in the paper" min:"0" max:"64"`
}

func (o *RecallOptions) open() (*Set, error) {
	if o.Length < o.Keys+1 {
		return nil, fmt.Errorf("length: found %d, want at least %d, the symbols of a key and its value",
			o.Length, o.Keys+1)
	}
	if want := o.allKeys() * o.Shown * (o.Keys + 1); o.Shown > 0 && o.Length != want {
		return nil, fmt.Errorf("length: found %d, want %d, to show %d keys %d times",
			o.Length, want, o.allKeys(), o.Shown)
	}
	return o.set(1+o.Keys, o.draw, o.keyAt)
}

// keyAt returns the key that ends at position i, or nil if none ends there.
func (o *RecallOptions) keyAt(tokens []int32, i int) []int32 {
	pair := o.Keys + 1
	trigger := o.Length / pair * pair // position of the trigger
	if i == trigger+o.Keys || i < trigger && i%pair == o.Keys-1 {
		return tokens[i+1-o.Keys : i+1]
	}
	return nil
}

// symbols returns the number of symbols for keys.
func (o *RecallOptions) symbols() int { return (o.Vocab - 2) / 2 }

// allKeys returns the number of keys.
func (o *RecallOptions) allKeys() int {
	n := 1
	for range o.Keys {
		n *= o.symbols()
	}
	return n
}

// draw generates a sequence. It implements sentence.
func (o *RecallOptions) draw(rng *rand.Rand, length int, tokens []int32) []int32 {
	value := map[int]int32{} // values of the keys shown so far
	var shown []int          // these keys in the order of their first appearance
	pairs := length / (o.Keys + 1)
	var order []int
	if o.Shown > 0 {
		order = rng.Perm(pairs)
	}
	for i := range pairs {
		var k int
		if o.Shown > 0 {
			k = order[i] % o.allKeys()
		} else {
			k = rng.IntN(o.allKeys())
		}
		if _, ok := value[k]; !ok {
			// Values are drawn when they are first needed. The map has the same distribution as one that is drawn at
			// once.
			value[k] = int32(1 + o.symbols() + rng.IntN(o.Vocab-2-o.symbols()))
			shown = append(shown, k)
		}
		tokens = append(o.key(k, tokens), value[k])
	}
	asked := rng.IntN(o.allKeys())
	if _, ok := value[asked]; !ok {
		asked = shown[rng.IntN(len(shown))]
	}
	return append(o.key(asked, append(tokens, o.trigger())), value[asked])
}

// key appends the symbols of key k to tokens.
func (o *RecallOptions) key(k int, tokens []int32) []int32 {
	for range o.Keys {
		tokens = append(tokens, int32(1+k%o.symbols()))
		k /= o.symbols()
	}
	return tokens
}
