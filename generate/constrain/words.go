package constrain

import (
	"math"
	"slices"
	"strings"
)

// Words are texts that no tokens may spell: no sequence of whole tokens is one of them, or one after a space. A longer
// token that has one in it is no such sequence. Any number of goroutines may use it.
type Words struct {
	vocabulary *Vocabulary
	texts      []string // each also after a space
}

// NewWords returns words in the tokens of a vocabulary.
func NewWords(v *Vocabulary, words []string) (*Words, error) {
	const mostWords, mostBytes = 256, 1 << 10
	if len(words) > mostWords {
		return nil, &Error{Text: "found more words than 256, want fewer"}
	}
	w := &Words{vocabulary: v}
	for _, text := range words {
		if text == "" || len(text) > mostBytes {
			return nil, &Error{Text: "found a word that is empty or has more than 1024 bytes, want another"}
		}
		w.texts = append(w.texts, text)
		if !strings.HasPrefix(text, " ") {
			w.texts = append(w.texts, " "+text)
		}
	}
	return w, nil
}

// Spelling is where a text may have begun to spell words. It is for one goroutine at a time.
type Spelling struct {
	words *Words
	on    []string // the rests of words whose beginnings have been spelled
	next  []string
}

// Start returns a text without tokens.
func (w *Words) Start() *Spelling { return &Spelling{words: w} }

// Exclude sets the logits of the tokens to -Inf that would end a word.
func (s *Spelling) Exclude(logits []float32) {
	for _, rests := range [][]string{s.words.texts, s.on} {
		for _, rest := range rests {
			for _, id := range s.words.vocabulary.spelled(rest) {
				if int(id) < len(logits) {
					logits[id] = float32(math.Inf(-1))
				}
			}
		}
	}
}

// Accept takes the next token.
func (s *Spelling) Accept(id int32) {
	text := string(s.words.vocabulary.plain.Decode(nil, []int32{id}))
	s.next = s.next[:0]
	for _, rests := range [][]string{s.words.texts, s.on} {
		for _, rest := range rests {
			if after, ok := strings.CutPrefix(rest, text); ok && text != "" && after != "" {
				s.next = append(s.next, after)
			}
		}
	}
	slices.Sort(s.next)
	s.on, s.next = slices.Compact(s.next), s.on
}
