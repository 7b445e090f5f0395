package tokenizer

import (
	"fmt"
	"sync"
	"unicode/utf8"
)

// pipeSpec is what a pipeline is made of.
type pipeSpec struct {
	kind          string
	norms         []normalizer
	steps         []preStep // how a text is cut into words
	bytes         *bpe      // byte-level BPE, which cuts and encodes by itself, in the place of steps that cut and model
	model         wordModel
	joins         *pairFilter // characters that stand side by side in a token
	tokens        []string    // the text of each id as the file writes it; "" for none
	decoding      *decoding   // nil for byte-level BPE
	added         []hfAdded
	user          []hfAdded // pieces of SentencePiece's user: found like added ones, in untrusted text too
	before, after []int32   // what the post-processor puts around a text
	file          func() ([]byte, error)
	print         func() string // the fingerprint
}

// pipeline is a tokenizer of the general form that Hugging Face's library has: added tokens divide the text,
// normalizers change the stretches between them, steps cut these into words, a model turns words into ids.
type pipeline struct {
	pipeSpec
	raw     *flaggedSet // added tokens that are found in the text as it is
	cooked  *flaggedSet // those that are found behind the normalizers
	plain   *flaggedSet // of user
	lead    []preStep   // steps before the first that cuts
	cut     *cutStep    // the first that cuts; nil for none
	rest    []preStep   // steps behind it
	text    []string    // tokens, decoded
	end     *int32      // the token that ends a document, where its name does not tell; nil for none
	workers sync.Pool   // of *wordWorker
}

// newPipeline makes a tokenizer.
func newPipeline(spec pipeSpec) (*pipeline, error) {
	t := &pipeline{pipeSpec: spec, lead: spec.steps, text: spec.tokens}
	for i, step := range spec.steps {
		if cut, ok := step.(*cutStep); ok {
			t.lead, t.cut, t.rest = spec.steps[:i], cut, spec.steps[i+1:]
			break
		}
	}
	if spec.decoding != nil {
		t.text = make([]string, len(spec.tokens))
		for id, token := range spec.tokens {
			t.text[id] = spec.decoding.token(token, false)
		}
	}
	var raw, cooked []hfAdded
	for _, a := range t.added {
		if !a.Normalized {
			raw = append(raw, a)
			continue
		}
		c := newChain(t.norms)
		if a.Content = string(c.push([]byte(a.Content), true)); a.Content != "" {
			cooked = append(cooked, a)
		}
	}
	t.raw, t.cooked, t.plain = newFlaggedSet(raw), newFlaggedSet(append(cooked, t.user...)), newFlaggedSet(t.user)
	t.workers.New = func() any { return &wordWorker{} }
	return t, checkAffixes(t.before, t.after, len(t.tokens))
}

func (t *pipeline) Kind() string             { return t.kind }
func (t *pipeline) VocabSize() int           { return len(t.tokens) }
func (t *pipeline) Fingerprint() string      { return t.print() }
func (t *pipeline) Save(dir string) error    { return save(dir, t) }
func (t *pipeline) marshal() ([]byte, error) { return t.file() }

func (t *pipeline) EndOfText() (int32, bool) { return endOfText(t.added, t.end) }
func (t *pipeline) setEnd(id *int32)         { t.end = id }

// affixes are the ids around a text.
func (t *pipeline) affixes() (before, after []int32) { return t.before, t.after }

// addedTokens are the tokens that are found in a text before anything else.
func (t *pipeline) addedTokens() []hfAdded { return t.added }

// ordinary encodes a text whose added tokens are plain characters.
func (t *pipeline) ordinary() streamEncoder { return t.stream(false) }

func (t *pipeline) Decode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		if 0 <= id && int(id) < len(t.text) {
			dst = append(dst, t.text[id]...)
		}
	}
	return dst
}

func (t *pipeline) newStream() streamEncoder { return t.stream(true) }

func (t *pipeline) Encode(dst []int32, text []byte) ([]int32, error) {
	ids, _, err := t.stream(true).encodeChunk(dst, text, true)
	return ids, err
}

// stream begins a text. Without added, tokens in it are plain characters.
func (t *pipeline) stream(added bool) *pipeStream {
	s := &pipeStream{t: t, norms: newChain(t.norms), first: true, start: true}
	s.raw, s.cooked = flaggedScan{find: t.raw}, flaggedScan{find: t.cooked}
	if !added {
		s.raw.find, s.cooked.find = &flaggedSet{set: &addedSet{}}, t.plain
	}
	s.raw.stretch, s.raw.token = s.normalize, s.emit
	s.cooked.stretch, s.cooked.token = s.words, s.emit
	return s
}

// pipeStream encodes one text.
type pipeStream struct {
	t           *pipeline
	raw, cooked flaggedScan
	norms       normalizerChain
	text        []byte // normalized, not yet searched for tokens
	word        []byte // behind the steps of lead, not yet cut or encoded
	scratch     [][]byte
	first       bool // nothing of the text has come before word
	start       bool // nothing of the stretch has gone through lead
	inside      bool // word goes on with a word
	dst         []int32
	w           *wordWorker
	carried     wordCarry
	bad         string // what a model found that has no token
}

func (s *pipeStream) encodeChunk(dst []int32, text []byte, last bool) (ids []int32, n int, err error) {
	s.w = s.t.workers.Get().(*wordWorker)
	s.w.wordCarry, s.dst = s.carried, dst
	defer func() {
		s.carried = s.w.wordCarry
		s.t.workers.Put(s.w)
		s.w, s.dst = nil, nil
	}()
	if !last {
		text = wholeRunes(text)
	}
	n, err = s.raw.run(text, last)
	if held := s.norms.held() + len(s.text) + len(s.word); err == nil && !last && held > MaxPending {
		err = fmt.Errorf("tokenizer: a word of more than %d bytes; Encode takes it, a stream does not", MaxPending)
	}
	if err != nil {
		return dst, 0, err
	}
	return s.dst, n, nil
}

// wholeRunes is text without the beginning of a character at its end.
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

// normalize takes the next part of a stretch between tokens.
func (s *pipeStream) normalize(text []byte, final bool) error {
	if len(text) == 0 && !final {
		return nil
	}
	kept := len(s.text) + s.norms.held()
	text = joined(&s.text, s.norms.push(text, final))
	n, err := s.cooked.run(text, final)
	s.text = append(s.text[:0], text[n:]...)
	return moveError(err, -int64(kept))
}

// words takes the next part of a normalized stretch.
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
	case s.t.bytes != nil:
		s.dst, done, err = s.t.bytes.encodeWords(s.dst, word, final)
	case s.t.cut == nil:
		done, at = s.encode(word, !s.inside, final)
		s.inside = !final && (s.inside || done > 0)
	default:
		done = s.t.cut.cut(word, final, func(lo, hi int) {
			if at < 0 && !s.follow(s.t.rest, len(s.t.lead), word[lo:hi], s.first && lo == 0) {
				at = lo
			}
		})
	}
	if at >= 0 {
		err = &EncodeError{int64(at), s.bad}
	}
	if err != nil {
		return moveError(err, -int64(kept))
	}
	s.first = s.first && done == 0
	s.word = append(s.word[:0], word[done:]...)
	return nil
}

// joined is what was kept and text, one behind the other, without a copy of text where nothing was kept.
func joined(kept *[]byte, text []byte) []byte {
	if len(*kept) == 0 {
		return text
	}
	*kept = append(*kept, text...)
	return *kept
}

// changed is what a step makes of a piece, in memory of its own.
func (s *pipeStream) changed(depth int, step preStep, piece []byte, start, first bool) []byte {
	for len(s.scratch) <= depth {
		s.scratch = append(s.scratch, nil)
	}
	s.scratch[depth] = change(step, s.scratch[depth][:0], piece, start, first)
	return s.scratch[depth]
}

// follow takes a piece through the remaining steps. first says that it begins the whole text. ok is false when a part
// of it has no token.
func (s *pipeStream) follow(steps []preStep, depth int, piece []byte, first bool) (ok bool) {
	for i, step := range steps {
		cut, isCut := step.(*cutStep)
		if !isCut {
			piece = s.changed(depth+i, step, piece, true, first)
			continue
		}
		ok = true
		cut.cut(piece, true, func(lo, hi int) {
			ok = ok && s.follow(steps[i+1:], depth+i+1, piece[lo:hi], first && lo == 0)
		})
		return ok
	}
	_, bad := s.encode(piece, true, true)
	return bad < 0
}

// encode appends the ids of a word, which it gives to the model in parts: no token goes over a place between two
// characters that are side by side in no token. When ends is false the word goes on, and done is where the last part
// begins. bad is the place of a character without a token, or -1.
func (s *pipeStream) encode(word []byte, begins, ends bool) (done, bad int) {
	if begins {
		s.w.wordCarry = wordCarry{}
	}
	lo, bad := 0, -1
	part := func(hi int, last bool) bool {
		s.dst, bad = s.t.model.encode(s.w, s.dst, word[lo:hi], begins && lo == 0 && last)
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
		if before >= 0 && !s.t.joins.has(before, r) && !part(i, false) {
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

// describe names the character that text begins with in an error.
func describe(text []byte) string {
	r, size := utf8.DecodeRune(text)
	if r == utf8.RuneError && size < 2 {
		return fmt.Sprintf("byte 0x%02x has no token in this vocabulary", text[0])
	}
	return fmt.Sprintf("character %q (%U) has no token in this vocabulary", r, r)
}
