// Package pipeline implements the general form of tokenizers of Hugging Face's library. Added tokens divide the text,
// normalizers change the stretches between them, steps split these into words, and a model converts words to ids. It
// encodes texts in pieces, and words of any length in bounded memory.
package pipeline

import (
	"fmt"
	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/normalize"
	"github.com/hippo-ssm/hippo/tokenizer/pretokenize"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"github.com/hippo-ssm/hippo/tokenizer/words"
	"sync"
	"unicode/utf8"
)

// Spec holds the parts of a tokenizer.
type Spec struct {
	Type          string
	Norms         []normalize.Normalizer
	Steps         []pretokenize.Step // how to split a text into words
	Bytes         *bpe.Tokenizer     // byte-level BPE, instead of Model and of steps that cut
	Model         words.Model
	Joins         *words.PairFilter // pairs of characters that are adjacent in some token
	Tokens        []string          // text of each id as written in the file; "" for none
	Decoding      *Decoding         // nil for byte-level BPE
	Added         []added.Token
	User          []added.Token // SentencePiece's user-defined pieces: found like added tokens, also in untrusted text
	Before, After []int32       // ids that the post-processor puts around a text
	File          func() ([]byte, error)
	Sum           func() string // returns the fingerprint
}

// Tokenizer is a tokenizer of the general form of Hugging Face's library: added tokens divide the text, normalizers
// change the stretches between them, steps split these into words, and a model converts words to ids.
type Tokenizer struct {
	Spec
	raw     *added.FlaggedSet  // added tokens that are found in the original text
	cooked  *added.FlaggedSet  // added tokens that are found after the normalizers
	plain   *added.FlaggedSet  // the tokens of User
	lead    []pretokenize.Step // steps before the first Cut
	cut     *pretokenize.Cut   // the first Cut; nil for none
	rest    []pretokenize.Step // steps after it
	text    []string           // Tokens, decoded
	model   words.Model        // same as Spec.Model; short enough here to be inlined
	End     *int32             // token that ends a document, if its name does not show it; nil for none
	workers sync.Pool          // of *wordWorker
}

// New returns a tokenizer.
func New(spec Spec) (*Tokenizer, error) {
	t := &Tokenizer{Spec: spec, lead: spec.Steps, text: spec.Tokens, model: spec.Model}
	for i, step := range spec.Steps {
		if cut, ok := step.(*pretokenize.Cut); ok {
			t.lead, t.cut, t.rest = spec.Steps[:i], cut, spec.Steps[i+1:]
			break
		}
	}
	if spec.Decoding != nil {
		t.text = make([]string, len(spec.Tokens))
		for id, token := range spec.Tokens {
			t.text[id] = spec.Decoding.token(token, false)
		}
	}
	var raw, cooked []added.Token
	for _, a := range t.Added {
		if !a.Normalized {
			raw = append(raw, a)
			continue
		}
		c := normalize.NewChain(t.Norms)
		if a.Content = string(c.Push([]byte(a.Content), true)); a.Content != "" {
			cooked = append(cooked, a)
		}
	}
	t.raw, t.cooked, t.plain = added.NewFlaggedSet(raw), added.NewFlaggedSet(append(cooked, t.User...)),
		added.NewFlaggedSet(t.User)
	t.workers.New = func() any { return &words.Worker{} }
	return t, token.CheckAffixes(t.Before, t.After, len(t.Tokens))
}

func (t *Tokenizer) Kind() string             { return t.Type }
func (t *Tokenizer) VocabSize() int           { return len(t.Tokens) }
func (t *Tokenizer) Fingerprint() string      { return t.Sum() }
func (t *Tokenizer) Save(dir string) error    { return token.Save(dir, t) }
func (t *Tokenizer) Marshal() ([]byte, error) { return t.File() }

func (t *Tokenizer) EndOfText() (int32, bool) { return added.EndOfText(t.Added, t.End) }
func (t *Tokenizer) SetEnd(id *int32)         { t.End = id }

// Affixes returns the ids to put before and after a text.
func (t *Tokenizer) Affixes() (before, after []int32) { return t.Before, t.After }

// AddedTokens returns the tokens that are found in a text before all others.
func (t *Tokenizer) AddedTokens() []added.Token { return t.Added }

// Ordinary returns a Stream that treats added tokens in the text as plain characters.
func (t *Tokenizer) Ordinary() token.Stream { return t.stream(false) }

func (t *Tokenizer) Decode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		if 0 <= id && int(id) < len(t.text) {
			dst = append(dst, t.text[id]...)
		}
	}
	return dst
}

func (t *Tokenizer) NewStream() token.Stream { return t.stream(true) }

func (t *Tokenizer) Encode(dst []int32, text []byte) ([]int32, error) {
	ids, _, err := t.stream(true).EncodeChunk(dst, text, true)
	return ids, err
}

// stream starts a text. If find is false, added tokens in it are plain characters.
func (t *Tokenizer) stream(find bool) *pipeStream {
	s := &pipeStream{t: t, norms: normalize.NewChain(t.Norms), first: true, start: true}
	s.raw, s.cooked = added.FlaggedScan{Find: t.raw}, added.FlaggedScan{Find: t.cooked}
	if !find {
		s.raw.Find, s.cooked.Find = &added.FlaggedSet{Set: &added.Set{}}, t.plain
	}
	s.raw.Stretch, s.raw.Token = s.normalize, s.emit
	s.cooked.Stretch, s.cooked.Token = s.words, s.emit
	return s
}

// pipeStream encodes one text.
type pipeStream struct {
	t           *Tokenizer
	raw, cooked added.FlaggedScan
	norms       normalize.Chain
	text        []byte // normalized, not yet searched for tokens
	word        []byte // after the steps of lead, not yet cut or encoded
	scratch     [][]byte
	first       bool // word is at the start of the text
	start       bool // nothing of the stretch has passed lead
	inside      bool // word continues in the middle of a word
	dst         []int32
	w           *words.Worker
	carried     words.Carry
	bad         string // description of a character without a token
}

func (s *pipeStream) EncodeChunk(dst []int32, text []byte, last bool) (ids []int32, n int, err error) {
	s.w = s.t.workers.Get().(*words.Worker)
	s.w.Carry, s.dst = s.carried, dst
	defer func() {
		s.carried = s.w.Carry
		s.t.workers.Put(s.w)
		s.w, s.dst = nil, nil
	}()
	if !last {
		text = wholeRunes(text)
	}
	n, err = s.raw.Run(text, last)
	if held := s.norms.Held() + len(s.text) + len(s.word); err == nil && !last && held > token.MaxPending {
		err = fmt.Errorf("tokenizer: a word of more than %d bytes; Encode takes it, a stream does not",
			token.MaxPending)
	}
	if err != nil {
		return dst, 0, err
	}
	return s.dst, n, nil
}

// wholeRunes returns text without an incomplete character at its end.
func wholeRunes(text []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}

// emit appends an added token.
func (s *pipeStream) emit(id int32) {
	s.dst = append(s.dst, id)
	s.first, s.start = false, true
}

// normalize processes the next part of a stretch between tokens.
func (s *pipeStream) normalize(text []byte, final bool) error {
	if len(text) == 0 && !final {
		return nil
	}
	kept := len(s.text) + s.norms.Held()
	text = joined(&s.text, s.norms.Push(text, final))
	n, err := s.cooked.Run(text, final)
	s.text = append(s.text[:0], text[n:]...)
	return token.MoveError(err, -int64(kept))
}

// words processes the next part of a normalized stretch.
func (s *pipeStream) words(text []byte, final bool) error {
	begins := s.start
	for i, step := range s.t.lead {
		text = s.changed(i, step, text, begins, s.first)
	}
	s.start = begins && len(text) == 0
	kept := len(s.word)
	word := joined(&s.word, text)
	done, at, err := 0, -1, error(nil)
	switch {
	case s.t.Bytes != nil:
		s.dst, done, err = s.t.Bytes.EncodeWords(s.dst, word, final)
	case s.t.cut == nil:
		done, at = s.encode(word, !s.inside, final)
		s.inside = !final && (s.inside || done > 0)
	default:
		done = s.t.cut.Cut(word, final, func(lo, hi int) {
			if at < 0 && !s.follow(s.t.rest, len(s.t.lead), word[lo:hi], s.first && lo == 0) {
				at = lo
			}
		})
	}
	if at >= 0 {
		err = &token.EncodeError{Offset: int64(at), What: s.bad}
	}
	if err != nil {
		return token.MoveError(err, -int64(kept))
	}
	s.first = s.first && done == 0
	s.word = append(s.word[:0], word[done:]...)
	return nil
}

// joined returns the kept text followed by text. It does not copy text if nothing was kept.
func joined(kept *[]byte, text []byte) []byte {
	if len(*kept) == 0 {
		return text
	}
	*kept = append(*kept, text...)
	return *kept
}

// changed returns the result of a step for a piece, in separate memory for each depth.
func (s *pipeStream) changed(depth int, step pretokenize.Step, piece []byte, start, first bool) []byte {
	for len(s.scratch) <= depth {
		s.scratch = append(s.scratch, nil)
	}
	s.scratch[depth] = pretokenize.Change(step, s.scratch[depth][:0], piece, start, first)
	return s.scratch[depth]
}

// follow passes a piece through the remaining steps. first reports that the piece starts the whole text. ok is false if
// a part of the piece has no token.
func (s *pipeStream) follow(steps []pretokenize.Step, depth int, piece []byte, first bool) (ok bool) {
	for i, step := range steps {
		cut, isCut := step.(*pretokenize.Cut)
		if !isCut {
			piece = s.changed(depth+i, step, piece, true, first)
			continue
		}
		ok = true
		cut.Cut(piece, true, func(lo, hi int) {
			ok = ok && s.follow(steps[i+1:], depth+i+1, piece[lo:hi], first && lo == 0)
		})
		return ok
	}
	_, bad := s.encode(piece, true, true)
	return bad < 0
}

// encode appends the ids of a word. It passes the word to the model in parts, divided between characters that are
// adjacent in no token, so that no token spans two parts. If ends is false, the word continues, and done is the start
// of the last part. bad is the offset of a character without a token, or -1.
func (s *pipeStream) encode(word []byte, begins, ends bool) (done, bad int) {
	if begins {
		s.w.Carry = words.Carry{}
	}
	lo, bad := 0, -1
	part := func(hi int, last bool) bool {
		s.dst, bad = s.t.model.Encode(s.w, s.dst, word[lo:hi], begins && lo == 0 && last)
		if bad >= 0 {
			bad += lo
			s.bad = describe(word[bad:])
		}
		lo = hi
		return bad < 0
	}
	before := rune(-1)
	for i := 0; i < len(word); {
		r, size := rune(word[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(word[i:])
		}
		if before >= 0 && !s.t.Joins.Has(before, r) && !part(i, false) {
			return lo, bad
		}
		before = r
		i += size
	}
	if ends && lo < len(word) {
		part(len(word), true)
	}
	return lo, bad
}

// describe describes the first character of text in an error.
func describe(text []byte) string {
	r, size := utf8.DecodeRune(text)
	if r == utf8.RuneError && size < 2 {
		return fmt.Sprintf("byte 0x%02x has no token in this vocabulary", text[0])
	}
	return fmt.Sprintf("character %q (%U) has no token in this vocabulary", r, r)
}
