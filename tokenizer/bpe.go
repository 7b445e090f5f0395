package tokenizer

import (
	"fmt"
	"sync"
)

// bpeSpec is what a byte-level BPE tokenizer is made of.
type bpeSpec struct {
	kind        string
	tokens      []string         // the bytes of each id; "" for an id without a token
	byteID      [256]int32       // the token of each byte; -1 for none
	merges      [][2]int32       // pairs of ids, by rank
	results     []int32          // what they become
	added       []hfAdded        // recognized in text before anything else
	patterns    []string         // how text is cut into words, see splitter
	prefixSpace bool             // prefix a space to a text that does not begin with one
	words       map[string]int32 // words that become this token without merging; nil for none
	before      []int32          // what the post-processor puts before a text
	after       []int32          // and behind it
	file        hfSettings       // what Save repeats
}

// bpe is a byte-level BPE tokenizer.
type bpe struct {
	bpeSpec
	table    mergeTable
	find     *addedSet
	split    splitter
	encoders sync.Pool // of *bpeEncoder
	print    func() string
	end      *int32 // the token that ends a document, where its name does not tell; nil for none
}

// newBPE makes a tokenizer. Ids and merges must be within maxIDs and maxMerges.
func newBPE(spec bpeSpec) (*bpe, error) {
	t := &bpe{bpeSpec: spec, table: newMergeTable(spec.merges, spec.results)}
	t.find = newAddedSet(spec.added)
	work := maxRegexWork
	for _, pattern := range spec.patterns {
		d, err := compileWithin(pattern, &work)
		if err != nil {
			return nil, err
		}
		t.split = append(t.split, d)
	}
	t.encoders.New = func() any { return &bpeEncoder{t: t} }
	t.print = sync.OnceValue(t.computeFingerprint)
	return t, nil
}

func (t *bpe) Kind() string        { return t.kind }
func (t *bpe) VocabSize() int      { return len(t.tokens) }
func (t *bpe) Fingerprint() string { return t.print() }

func (t *bpe) computeFingerprint() string {
	f := newFingerprint(t.kind)
	f.number(len(t.tokens))
	for _, token := range t.tokens {
		f.text(token)
		f.number(int(t.words[token])) // 0 when it is not one of words
	}
	for _, id := range t.byteID {
		f.number(int(id))
	}
	f.number(len(t.merges))
	for i, pair := range t.merges {
		f.number(int(pair[0]))
		f.number(int(pair[1]))
		f.number(int(t.results[i]))
	}
	f.number(len(t.added))
	for _, a := range t.added {
		f.text(a.Content)
		f.number(int(a.ID))
	}
	f.number(len(t.patterns))
	for _, p := range t.patterns {
		f.text(p)
	}
	f.text(fmt.Sprint(t.prefixSpace))
	return f.sum()
}

func (t *bpe) EndOfText() (int32, bool) { return endOfText(t.added, t.end) }
func (t *bpe) setEnd(id *int32)         { t.end = id }

// affixes are the ids around a text.
func (t *bpe) affixes() (before, after []int32) { return t.before, t.after }

// addedTokens are the tokens that are found in a text before anything else.
func (t *bpe) addedTokens() []hfAdded { return t.added }

// ordinary encodes a text whose added tokens are plain characters.
func (t *bpe) ordinary() streamEncoder { return &bpeStream{t: t, find: &addedSet{}} }

// encodeWords appends the ids of the words of text, in which there are no added tokens.
func (t *bpe) encodeWords(dst []int32, text []byte, final bool) (ids []int32, done int, err error) {
	e := t.encoders.Get().(*bpeEncoder)
	e.dst = dst
	done, err = e.encode(text, final)
	dst, e.dst = e.dst, nil
	t.encoders.Put(e)
	return dst, done, err
}

func (t *bpe) Decode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		if 0 <= id && int(id) < len(t.tokens) {
			dst = append(dst, t.tokens[id]...)
		}
	}
	return dst
}

func (t *bpe) Encode(dst []int32, text []byte) ([]int32, error) {
	s := bpeStream{t: t, find: t.find}
	dst, _, err := s.encodeChunk(dst, text, true)
	return dst, err
}

func (t *bpe) newStream() streamEncoder { return &bpeStream{t: t, find: t.find} }

// bpeStream encodes one text. Added tokens divide the text into stretches; each is cut into words on its own.
type bpeStream struct {
	t      *bpe
	find   *addedSet
	inside bool // the text continues in the middle of a stretch
}

func (s *bpeStream) encodeChunk(dst []int32, text []byte, last bool) (ids []int32, n int, err error) {
	e := s.t.encoders.Get().(*bpeEncoder)
	e.dst = dst
	defer func() {
		e.dst = nil
		s.t.encoders.Put(e)
	}()
	tokens := s.find.scan(text, last)
	for at := 0; ; {
		lo, hi, id := tokens.next(at)
		done, err := s.stretch(e, text[at:lo], last || id >= 0)
		if err != nil {
			return dst, 0, moveError(err, int64(at))
		}
		if id < 0 {
			return e.dst, at + done, nil
		}
		e.dst = append(e.dst, id)
		at = hi
		s.inside = false
	}
}

// stretch encodes text between added tokens. final says that the stretch ends at the end of text.
func (s *bpeStream) stretch(e *bpeEncoder, text []byte, final bool) (done int, err error) {
	if s.t.prefixSpace && !s.inside && len(text) > 0 && text[0] != ' ' {
		done, err = e.encode(append([]byte{' '}, text...), final)
		s.inside = done > 0
		return max(done-1, 0), moveError(err, -1)
	}
	done, err = e.encode(text, final)
	s.inside = s.inside || done > 0
	return done, err
}

// bpeEncoder is the working memory of one call of Encode.
type bpeEncoder struct {
	t     *bpe
	dst   []int32
	bad   int // place of the first byte without a token, or -1
	cache wordCache
	merger
}

// encode appends the ids of the words of text, see splitter.split.
func (e *bpeEncoder) encode(text []byte, final bool) (done int, err error) {
	e.bad = -1
	done = e.t.split.split(text, 0, len(text), final, func(lo, hi int) {
		if hi-lo > maxCachedWord {
			e.word(text, lo, hi)
			return
		}
		key := keyOf(text, lo, hi)
		place := e.cache.place(key)
		if place.key == key {
			e.dst = append(e.dst, place.ids[:place.n]...)
			return
		}
		start := len(e.dst)
		e.word(text, lo, hi)
		if ids := e.dst[start:]; len(ids) <= len(place.ids) && e.bad < 0 {
			place.key = key
			place.n = int32(copy(place.ids[:], ids))
		}
	})
	if e.bad >= 0 {
		return 0, &EncodeError{int64(e.bad), fmt.Sprintf("byte 0x%02x has no token in this vocabulary", text[e.bad])}
	}
	return done, nil
}

// word appends the ids of the word text[lo:hi].
func (e *bpeEncoder) word(text []byte, lo, hi int) {
	if id, ok := e.t.words[string(text[lo:hi])]; ok {
		e.dst = append(e.dst, id)
		return
	}
	start := len(e.dst)
	for i := lo; i < hi; i++ {
		id := e.t.byteID[text[i]]
		if id < 0 {
			if e.bad < 0 {
				e.bad = i
			}
			return
		}
		e.dst = append(e.dst, id)
	}
	e.dst = e.dst[:start+len(e.merge(&e.t.table, e.dst[start:]))]
}
