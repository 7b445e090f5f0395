// Package bpe implements byte-level BPE as in GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask
// Learners", §2.2; merges after Sennrich et al., arXiv:1508.07909). Regular expressions split text into words. Each
// word starts as its bytes. The adjacent pair that was learned first is merged until there is no learned pair. The
// package includes GPT-2's vocabulary, and can learn others from a corpus.
package bpe

import (
	"fmt"
	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"sync"
)

// Spec holds the parts of a byte-level BPE tokenizer.
type Spec struct {
	Type        string
	Tokens      []string         // the bytes of each id; "" for an id without a token
	ByteID      [256]int32       // the token of each byte; -1 for none
	Merges      [][2]int32       // pairs of ids, by rank
	Results     []int32          // id of the result of each merge
	Added       []added.Token    // found in text before all other tokens
	Patterns    []string         // how to split text into words, see regex.Splitter
	PrefixSpace bool             // prefix a space to a text that does not start with one
	Words       map[string]int32 // words that become one token without merging; nil for none
	Before      []int32          // ids that the post-processor puts before a text
	After       []int32          // ids that it puts after a text
	File        Settings         // parts that Save writes unchanged
}

// Tokenizer is a byte-level BPE tokenizer.
type Tokenizer struct {
	Spec
	table    MergeTable
	find     *added.Set
	Split    regex.Splitter
	encoders sync.Pool // of *bpeEncoder
	print    func() string
	end      *int32 // token that ends a document, if its name does not show it; nil for none
}

// New returns a tokenizer. Ids and merges must be within maxIDs and maxMerges.
func New(spec Spec) (*Tokenizer, error) {
	t := &Tokenizer{Spec: spec, table: NewMergeTable(spec.Merges, spec.Results)}
	t.find = added.NewSet(spec.Added)
	work := regex.MaxWork
	for _, pattern := range spec.Patterns {
		d, err := regex.CompileWithin(pattern, &work)
		if err != nil {
			return nil, err
		}
		t.Split = append(t.Split, d)
	}
	t.encoders.New = func() any { return &bpeEncoder{t: t} }
	t.print = sync.OnceValue(t.computeFingerprint)
	return t, nil
}

func (t *Tokenizer) Kind() string        { return t.Type }
func (t *Tokenizer) VocabSize() int      { return len(t.Tokens) }
func (t *Tokenizer) Fingerprint() string { return t.print() }

func (t *Tokenizer) computeFingerprint() string {
	f := token.NewFingerprint(t.Type)
	f.Number(len(t.Tokens))
	for _, token := range t.Tokens {
		f.Text(token)
		f.Number(int(t.Words[token])) // 0 if it is not in Words
	}
	for _, id := range t.ByteID {
		f.Number(int(id))
	}
	f.Number(len(t.Merges))
	for i, pair := range t.Merges {
		f.Number(int(pair[0]))
		f.Number(int(pair[1]))
		f.Number(int(t.Results[i]))
	}
	f.Number(len(t.Added))
	for _, a := range t.Added {
		f.Text(a.Content)
		f.Number(int(a.ID))
	}
	f.Number(len(t.Patterns))
	for _, p := range t.Patterns {
		f.Text(p)
	}
	f.Text(fmt.Sprint(t.PrefixSpace))
	return f.Sum()
}

func (t *Tokenizer) EndOfText() (int32, bool) { return added.EndOfText(t.Added, t.end) }
func (t *Tokenizer) SetEnd(id *int32)         { t.end = id }

// Affixes returns the ids to put before and after a text.
func (t *Tokenizer) Affixes() (before, after []int32) { return t.Before, t.After }

// AddedTokens returns the tokens that are found in a text before all others.
func (t *Tokenizer) AddedTokens() []added.Token { return t.Added }

// Ordinary returns a Stream that treats added tokens in the text as plain characters.
func (t *Tokenizer) Ordinary() token.Stream { return &bpeStream{t: t, find: &added.Set{}} }

// EncodeWords appends the ids of the words of text, which must not contain added tokens.
func (t *Tokenizer) EncodeWords(dst []int32, text []byte, final bool) (ids []int32, done int, err error) {
	e := t.encoders.Get().(*bpeEncoder)
	e.dst = dst
	done, err = e.encode(text, final)
	dst, e.dst = e.dst, nil
	t.encoders.Put(e)
	return dst, done, err
}

func (t *Tokenizer) Decode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		if 0 <= id && int(id) < len(t.Tokens) {
			dst = append(dst, t.Tokens[id]...)
		}
	}
	return dst
}

func (t *Tokenizer) Encode(dst []int32, text []byte) ([]int32, error) {
	s := bpeStream{t: t, find: t.find}
	dst, _, err := s.EncodeChunk(dst, text, true)
	return dst, err
}

func (t *Tokenizer) NewStream() token.Stream { return &bpeStream{t: t, find: t.find} }

// bpeStream encodes one text. Added tokens divide the text into stretches. Each is split into words separately.
type bpeStream struct {
	t      *Tokenizer
	find   *added.Set
	inside bool // the text continues within a stretch
}

func (s *bpeStream) EncodeChunk(dst []int32, text []byte, last bool) (ids []int32, n int, err error) {
	e := s.t.encoders.Get().(*bpeEncoder)
	e.dst = dst
	defer func() {
		e.dst = nil
		s.t.encoders.Put(e)
	}()
	tokens := s.find.Scan(text, last)
	for at := 0; ; {
		lo, hi, id := tokens.Next(at)
		done, err := s.stretch(e, text[at:lo], last || id >= 0)
		if err != nil {
			return dst, 0, token.MoveError(err, int64(at))
		}
		if id < 0 {
			return e.dst, at + done, nil
		}
		e.dst = append(e.dst, id)
		at = hi
		s.inside = false
	}
}

// stretch encodes text between added tokens. If final is true, the stretch ends at the end of text.
func (s *bpeStream) stretch(e *bpeEncoder, text []byte, final bool) (done int, err error) {
	if s.t.PrefixSpace && !s.inside && len(text) > 0 && text[0] != ' ' {
		done, err = e.encode(append([]byte{' '}, text...), final)
		s.inside = done > 0
		return max(done-1, 0), token.MoveError(err, -1)
	}
	done, err = e.encode(text, final)
	s.inside = s.inside || done > 0
	return done, err
}

// bpeEncoder is the working memory of one call of Encode.
type bpeEncoder struct {
	t     *Tokenizer
	dst   []int32
	bad   int // offset of the first byte without a token, or -1
	cache WordCache
	Merger
}

// encode appends the ids of the words of text, see regex.Splitter.Split.
func (e *bpeEncoder) encode(text []byte, final bool) (done int, err error) {
	e.bad = -1
	done = e.t.Split.Split(text, 0, len(text), final, func(lo, hi int) {
		if hi-lo > MaxCachedWord {
			e.word(text, lo, hi)
			return
		}
		key := KeyOf(text, lo, hi)
		place := e.cache.Place(key)
		if place.Key == key {
			e.dst = append(e.dst, place.IDs[:place.N]...)
			return
		}
		start := len(e.dst)
		e.word(text, lo, hi)
		if ids := e.dst[start:]; len(ids) <= len(place.IDs) && e.bad < 0 {
			place.Key = key
			place.N = int32(copy(place.IDs[:], ids))
		}
	})
	if e.bad >= 0 {
		return 0, &token.EncodeError{Offset: int64(e.bad),
			What: fmt.Sprintf("byte 0x%02x has no token in this vocabulary", text[e.bad])}
	}
	return done, nil
}

// word appends the ids of the word text[lo:hi].
func (e *bpeEncoder) word(text []byte, lo, hi int) {
	if id, ok := e.t.Words[string(text[lo:hi])]; ok {
		e.dst = append(e.dst, id)
		return
	}
	start := len(e.dst)
	for i := lo; i < hi; i++ {
		id := e.t.ByteID[text[i]]
		if id < 0 {
			if e.bad < 0 {
				e.bad = i
			}
			return
		}
		e.dst = append(e.dst, id)
	}
	e.dst = e.dst[:start+len(e.Merge(&e.t.table, e.dst[start:]))]
}
