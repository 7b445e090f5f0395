package constrain

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// Constraint is a grammar for texts in the tokens of a tokenizer. Any number of goroutines may write texts with it.
// They share the cached results.
type Constraint struct {
	grammar    *Grammar
	tok        tokenizer.Tokenizer
	vocabulary *Vocabulary
	need       []int32

	mu      sync.Mutex
	machine *machine
}

// New returns a constraint for the texts of a grammar. v must be the vocabulary of tok. New returns an error if no text
// can be written in its tokens.
func New(g *Grammar, tok tokenizer.Tokenizer, v *Vocabulary) (*Constraint, error) {
	c := &Constraint{grammar: g, tok: tok, vocabulary: v, need: g.needs(&v.usable)}
	if c.need[g.start] == never {
		return nil, &Error{Text: "found a tokenizer that lacks characters of every text that is allowed, " +
			"want one that has them"}
	}
	if c.machine = newMachine(g, c.need); c.machine.over {
		return nil, &Error{Text: ErrAmbiguous.Error()}
	}
	return c, nil
}

// Text is an unfinished text. It must be used by one goroutine at a time.
type Text struct {
	c       *Constraint
	machine *machine // the machine to which at belongs
	cursor
	bytes []byte
	work  int // items visited for the text, minus the allowance of tokenWork for each token
}

// Start returns a text without tokens.
func (c *Constraint) Start() *Text {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Text{c: c, machine: c.machine, cursor: cursor{at: c.machine.start}}
}

// ready moves the text to a configuration of the current machine. If the caches of that machine are too large, ready
// starts a new one. t.c.mu must be held.
func (t *Text) ready() {
	if t.c.machine.size > maxSize {
		t.c.machine = newMachine(t.c.grammar, t.c.need)
	}
	if m := t.c.machine; t.machine != m {
		t.at, t.machine = m.move(t.at, t.machine), m
	}
}

// Mask sets the logits of all tokens that may not follow to -Inf, including those that end a text.
func (t *Text) Mask(logits []float32) error {
	mask, err := t.mask()
	if err != nil {
		return err
	}
	some := false
	for w, word := range mask {
		part := logits[min(64*w, len(logits)):min(64*w+64, len(logits))]
		some = some || word != 0
		if word == 0 {
			copy(part, excluded[:])
			continue
		}
		for out := ^word; out != 0; out &= out - 1 {
			if i := bits.TrailingZeros64(out); i < len(part) {
				part[i] = excluded[0]
			}
		}
	}
	for i := 64 * len(mask); i < len(logits); i++ {
		logits[i] = excluded[0]
	}
	if !some && !t.at.ends {
		return errors.New("constrain: found no token that continues the text, want a tokenizer with all its characters")
	}
	return nil
}

// excluded holds logits of -Inf.
var excluded = func() (all [64]float32) {
	for i := range all {
		all[i] = float32(math.Inf(-1))
	}
	return all
}()

func (t *Text) mask() ([]uint64, error) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.ready()
	if t.at.mask != nil && !t.c.grammar.unique {
		return t.at.mask, nil
	}
	before, mask, err := t.machine.work, t.at.mask, error(nil)
	if mask == nil {
		mask, err = t.c.vocabulary.mask(t.machine, t.at)
	}
	if err == nil {
		if t.at.mask = mask; t.c.grammar.unique {
			t.machine.bound()
			mask = t.c.vocabulary.differing(t.machine, t.cursor, mask)
			err = t.machine.ambiguous()
		}
	}
	if t.work += t.machine.work - before - tokenWork; err == nil && t.work > textWork {
		err = ErrAmbiguous
	}
	return mask, err
}

// Accept adds the next token to the text. It returns an error if the token may not follow.
func (t *Text) Accept(id int32) error {
	t.bytes = t.c.tok.Decode(t.bytes[:0], []int32{id})
	return t.take(t.bytes)
}

// take adds the next bytes to the text.
func (t *Text) take(text []byte) error {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.ready()
	t.machine.bound()
	for _, x := range text {
		if t.cursor = t.machine.follow(t.cursor, x); t.machine.over {
			return ErrAmbiguous
		} else if t.at == t.machine.dead {
			break
		}
	}
	t.settle()
	if alive := t.machine.alive(t.cursor); !alive && !t.machine.over {
		return fmt.Errorf("constrain: found %.40q, which may not follow, want what may", text)
	}
	return t.machine.ambiguous()
}

// Ends reports whether the text may end here.
func (t *Text) Ends() bool { return t.at.ends }

// Whole reports whether the text must end here: nothing may follow.
func (t *Text) Whole() bool { return len(t.at.items) == 0 }
