package constrain

import (
	"math"
	"slices"
	"strings"
)

// Words holds the words that tokens must not spell: no sequence of whole tokens may form one of them, or one with a
// space before it. A longer token that contains a word is permitted. Any number of goroutines may use a Words.
type Words struct {
	vocabulary *Vocabulary
	texts      []string // each also with a space before it
}

// NewWords returns a Words for the tokens of a vocabulary.
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

// Spelling tracks the words that a text has started to spell. It must be used by one goroutine at a time.
type Spelling struct {
	words *Words
	on    []string // rests of the words that have been started
	next  []string
}

// Start returns the Spelling of a text without tokens.
func (w *Words) Start() *Spelling { return &Spelling{words: w} }

// Exclude sets the logits of tokens that would complete a word to -Inf.
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

// Accept adds the next token.
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
