// Package trie implements the tokenizer of RWKV ("RWKV World", rwkv_vocab_v20230424.txt): at each position of a text it
// takes the longest token, over bytes, without merges or words.
package trie

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/token"
)

// Kind is the name of this kind of tokenizer.
const Kind = "rwkv"

// Tokenizer takes the longest token. If two tokens are equal, it takes the larger id. Id 0, which files omit, ends a
// document.
type Tokenizer struct {
	Tokens []string // by id; "" for none
	File   []byte   // the input of Parse
	nodes  []node   // trie of all tokens; the first node is the root
	labels []byte   // byte that leads to each node
	end    *added.Set
	ends   bool
}

// node is a node of the trie. Its children are adjacent nodes.
type node struct {
	first, last int32 // range of its children
	id          int32 // id of the token that ends here, -1 for none
}

// New returns the tokenizer of tokens, indexed by id. "" means that the id has no token.
func New(tokens []string) *Tokenizer {
	t := &Tokenizer{Tokens: tokens, ends: len(tokens) > 0 && tokens[0] == "", end: &added.Set{}}
	if t.ends {
		t.end = added.NewSet([]added.Token{{Content: token.EndOfTextToken, ID: 0, Special: true}})
	}
	order := make([]int32, len(tokens))
	for id := range order {
		order[id] = int32(id)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(strings.Compare(tokens[a], tokens[b]), cmp.Compare(a, b))
	})
	t.nodes, t.labels = []node{{id: -1}}, []byte{0}
	// below holds the tokens that pass through each node, in sorted order. They share the first depth bytes.
	for below, depth, from := [][]int32{order}, 0, 0; len(below) > 0; depth++ {
		var next [][]int32
		for i, through := range below {
			n := &t.nodes[from+i]
			for len(through) > 0 && len(tokens[through[0]]) == depth {
				if depth > 0 {
					n.id = through[0]
				}
				through = through[1:]
			}
			n.first = int32(len(t.nodes))
			for len(through) > 0 {
				b, k := tokens[through[0]][depth], 1
				for k < len(through) && tokens[through[k]][depth] == b {
					k++
				}
				next, through = append(next, through[:k]), through[k:]
				t.nodes, t.labels = append(t.nodes, node{id: -1}), append(t.labels, b)
			}
			t.nodes[from+i].last = int32(len(t.nodes))
		}
		from, below = from+len(below), next
	}
	return t
}

// longest returns the id and the length of the longest token at the start of text; n is 0 if there is none. open
// reports whether a longer token is possible if more text follows.
func (t *Tokenizer) longest(text []byte) (id int32, n int, open bool) {
	at := &t.nodes[0]
	for i, b := range text {
		next := bytes.IndexByte(t.labels[at.first:at.last], b)
		if next < 0 {
			return id, n, false
		}
		if at = &t.nodes[int(at.first)+next]; at.id >= 0 {
			id, n = at.id, i+1
		}
	}
	return id, n, at.first < at.last
}

// Kind returns "rwkv".
func (t *Tokenizer) Kind() string { return Kind }

// VocabSize returns the largest id plus one.
func (t *Tokenizer) VocabSize() int { return len(t.Tokens) }

// EndOfText returns id 0, unless that is another token.
func (t *Tokenizer) EndOfText() (int32, bool) { return 0, t.ends }

// AddedTokens returns the token that ends a document.
func (t *Tokenizer) AddedTokens() []added.Token {
	if !t.ends {
		return nil
	}
	return []added.Token{{Content: token.EndOfTextToken, Special: true}}
}

// Fingerprint hashes the tokens.
func (t *Tokenizer) Fingerprint() string {
	f := token.NewFingerprint(Kind)
	f.Number(len(t.Tokens))
	for _, text := range t.Tokens {
		f.Text(text)
	}
	return f.Sum()
}

// Save writes dir/tokenizer.json.
func (t *Tokenizer) Save(dir string) error { return token.Save(dir, t) }

// Marshal returns the content of tokenizer.json, which contains the file of the vocabulary.
func (t *Tokenizer) Marshal() ([]byte, error) {
	return token.MarshalSection(token.Section{Kind: Kind, Model: t.Text()})
}

// NewStream returns a Stream that recognizes the token that ends a document.
func (t *Tokenizer) NewStream() token.Stream { return stream{t, t.end} }

// Ordinary returns a Stream that does not recognize that token.
func (t *Tokenizer) Ordinary() token.Stream { return stream{t, &added.Set{}} }

// Encode appends the ids of a text.
func (t *Tokenizer) Encode(dst []int32, text []byte) ([]int32, error) {
	dst, _, err := t.NewStream().EncodeChunk(dst, text, true)
	return dst, err
}

// Decode appends the bytes of ids.
func (t *Tokenizer) Decode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		switch {
		case id == 0 && t.ends:
			dst = append(dst, token.EndOfTextToken...)
		case 0 <= id && int(id) < len(t.Tokens):
			dst = append(dst, t.Tokens[id]...)
		}
	}
	return dst
}

// stream encodes one text. end finds the token that ends a document.
type stream struct {
	t   *Tokenizer
	end *added.Set
}

func (s stream) EncodeChunk(dst []int32, text []byte, last bool) ([]int32, int, error) {
	old, ends := len(dst), s.end.Scan(text, last)
	for at := 0; ; {
		lo, hi, id := ends.Next(at)
		whole := last || id >= 0
		var n int
		var err error
		if dst, n, err = s.plain(dst, text[at:lo], whole); err != nil {
			return dst[:old], 0, token.MoveError(err, int64(at))
		}
		if at += n; id < 0 || at < lo {
			return dst, at, nil
		}
		dst, at = append(dst, id), hi
	}
}

// plain encodes a text without tokens that end a document, and returns the number of bytes whose tokens are settled. If
// whole is true, these are all bytes.
func (s stream) plain(dst []int32, text []byte, whole bool) ([]int32, int, error) {
	at := 0
	for at < len(text) {
		id, n, open := s.t.longest(text[at:])
		switch {
		case open && !whole:
			return dst, at, nil
		case n == 0:
			return dst, at, &token.EncodeError{Offset: int64(at),
				What: fmt.Sprintf("no token starts with byte 0x%02x", text[at])}
		}
		dst, at = append(dst, id), at+n
	}
	return dst, at, nil
}
