package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/data"
)

// Author and SameAuthor replace the text tasks of the Long Range Arena where its files are not available. They have the
// same form, but other and easier contents: a text as bytes with one of two classes, and pairs of texts. Passages are
// taken at random from three texts: Moby-Dick, Shakespeare's plays and articles of Wikipedia. Everything but the
// letters a to z becomes a single space, so that neither capitals nor punctuation identify an author. The last tenth of
// each text is for testing, and the tenth before it for validation.
var (
	Author = passages("author", false,
		"a passage of letters: of Moby-Dick or of a play by Shakespeare? (in place of the arena's text)")
	SameAuthor = passages("same-author", true,
		"two passages of letters: of one text? (of three; in place of the arena's retrieval)")
)

func passages(name string, pairs bool, about string) *Task {
	return &Task{
		Name: name, Group: "long range arena", About: about,
		Source: "made here, in the form of the Long Range Arena's tasks, arXiv:2011.04006",
		Files: "tinyshakespeare/input.txt (https://github.com/karpathy/char-rnn) and, for same-author, " +
			"wikitext2/train.txt (the raw WikiText-2), compressed or not",
		Options: func() any { return &passageOptions{Length: 1024, Train: 20000, Test: 1000} },
		Open: func(ctx context.Context, dir string, options any) (*Set, error) {
			return openPassages(ctx, name, pairs, dir, options.(*passageOptions))
		},
	}
}

// passageOptions holds the options of Author and SameAuthor.
type passageOptions struct {
	Length int    `json:"length" min:"16" max:"65536" help:"letters and spaces of a passage"`
	Train  int    `json:"train" min:"1" max:"10000000" help:"examples to train on"`
	Test   int    `json:"test" min:"1" max:"1000000" help:"examples to test on, and as many to validate"`
	Seed   uint64 `json:"seed" help:"seed of the places of passages"`
}

// openPassages reads the texts and divides them into parts.
func openPassages(ctx context.Context, name string, pairs bool, dir string, o *passageOptions) (*Set, error) {
	from := origin{name, "char-rnn and WikiText-2", "https://github.com/karpathy/char-rnn"}
	texts := make([][]byte, 1, 3)
	moby := data.Embedded()
	defer moby.Close()
	err := moby.Each(func(_ string, r io.Reader) (err error) {
		texts[0], err = letters(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	files := [][]string{layouts("input.txt", "tinyshakespeare/", "")}
	if pairs {
		files = append(files, layouts("train.txt", "wikitext2/", ""))
	}
	for _, names := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at, err := from.find(dir, names...)
		if err != nil {
			return nil, err
		}
		err = from.read(at, func(r io.Reader) error {
			text, err := letters(r)
			if len(text) < 20*o.Length && err == nil {
				err = fmt.Errorf("found %d letters and spaces, want 20 passages of %d at least", len(text), o.Length)
			}
			texts = append(texts, text)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	split := func(stream uint64, n, from, to int) Split {
		parts := make([][]byte, len(texts))
		for i, t := range texts {
			parts[i] = t[len(t)*from/10 : len(t)*to/10]
		}
		return &drawn{n: n, seed: o.Seed, stream: stream, draw: func(rng *rand.Rand, i int, ex *Example) {
			class := i % 2 // equally many of both classes
			first := rng.IntN(len(parts))
			if !pairs {
				first = class
			}
			ex.Tokens = passage(ex.Tokens, rng, parts[first], o.Length)
			if pairs {
				second := first
				if class == 0 {
					second = (first + 1 + rng.IntN(len(parts)-1)) % len(parts)
				}
				ex.Second = passage(ex.Second, rng, parts[second], o.Length)
			}
			ex.Targets = append(ex.Targets, int32(class))
		}}
	}
	set := &Set{
		Vocab: 27, Outputs: 2, Pairs: pairs, MaxLength: o.Length, Classes: []string{"Melville", "Shakespeare"},
		Train: split(0, o.Train, 0, 8), Valid: split(1, o.Test, 8, 9), Test: split(2, o.Test, 9, 10),
	}
	if pairs {
		set.Classes = []string{"two texts", "one text"}
	}
	return set, nil
}

// passage appends a part of a text, from a random position on.
func passage(dst []int32, rng *rand.Rand, text []byte, length int) []int32 {
	at := rng.IntN(len(text) - length + 1)
	for _, c := range text[at : at+length] {
		dst = append(dst, int32(c))
	}
	return dst
}

// letters reads a text: the letters a to z become 1 to 26, and everything between words becomes a single 0.
func letters(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	to := text[:0]
	for _, c := range text {
		switch c |= 0x20; {
		case 'a' <= c && c <= 'z':
			to = append(to, c-'a'+1)
		case len(to) > 0 && to[len(to)-1] != 0:
			to = append(to, 0)
		}
	}
	if len(to) == 0 {
		return nil, errors.New("found no letters, want a text")
	}
	return to, nil
}
