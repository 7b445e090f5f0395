package constrain

import (
	"bytes"
	"slices"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// Vocabulary is the tokens of a tokenizer in a trie of their bytes. Special tokens, those without bytes and those that
// end a text are not in it: no text is written by them. It may be used by any number of goroutines.
type Vocabulary struct {
	nodes  []trieNode
	ids    []int32             // of the nodes, one after another
	size   int                 // one more than the largest id
	deep   int                 // bytes of the longest token
	plain  tokenizer.Tokenizer // that decodes special tokens to nothing
	usable [256]bool
}

// trieNode is a node of the trie. The nodes lie in the order in which a walk meets them.
type trieNode struct {
	x     byte
	depth int32 // of the node above, 0 for the root
	skip  int32 // the next node that is not below this one
	ids   int32 // the end of its ids
	comma bool  // there is one in its text, or in that of a token below
}

// longestToken is the most bytes of a token that is used.
const longestToken = 256

// NewVocabulary returns the vocabulary of a tokenizer, some of whose tokens end a text besides its own end of text. Of
// the special tokens it has those that markers are, such as <|tool_call|>.
func NewVocabulary(tok tokenizer.Tokenizer, ends []int32, markers ...string) *Vocabulary {
	if end, ok := tok.EndOfText(); ok {
		ends = append(ends[:len(ends):len(ends)], end)
	}
	marked := map[int32]bool{}
	for _, marker := range markers {
		if ids, err := tok.Encode(nil, []byte(marker)); err == nil && len(ids) == 1 {
			marked[ids[0]] = true
		}
	}
	plain := tokenizer.WithoutSpecial(tok)
	type token struct {
		text []byte
		id   int32
	}
	var all []token
	v := &Vocabulary{size: tok.VocabSize(), plain: plain}
	for id := range int32(v.size) {
		text := plain.Decode(nil, []int32{id})
		if marked[id] {
			text = tok.Decode(nil, []int32{id})
		}
		if len(text) == 0 || len(text) > longestToken || slices.Contains(ends, id) {
			continue
		}
		all = append(all, token{text, id})
		v.deep = max(v.deep, len(text))
		for _, x := range text {
			// A character outside of ASCII may be a token as a whole, without one for each of its bytes.
			v.usable[x] = v.usable[x] || len(text) == 1 || x >= 0x80
		}
	}
	slices.SortStableFunc(all, func(a, b token) int { return bytes.Compare(a.text, b.text) })
	var path []int32 // the nodes of the text before
	var before []byte
	close := func(depth int) {
		for _, at := range path[depth:] {
			v.nodes[at].skip = int32(len(v.nodes))
		}
		path = path[:depth]
	}
	for _, t := range all {
		same := 0
		for same < min(len(before), len(t.text)) && before[same] == t.text[same] {
			same++
		}
		close(same)
		for depth := same; depth < len(t.text); depth++ {
			path = append(path, int32(len(v.nodes)))
			v.nodes = append(v.nodes, trieNode{x: t.text[depth], depth: int32(depth), ids: int32(len(v.ids))})
		}
		for _, at := range path {
			v.nodes[at].comma = v.nodes[at].comma || bytes.IndexByte(t.text, ',') >= 0
		}
		v.ids = append(v.ids, t.id)
		v.nodes[path[len(path)-1]].ids = int32(len(v.ids))
		before = t.text
	}
	close(0)
	return v
}

// spelled is the tokens with a text.
func (v *Vocabulary) spelled(text string) []int32 {
	at, to := 0, len(v.nodes) // the nodes below those of the text so far
	for i := range len(text) {
		for at < to && v.nodes[at].x != text[i] {
			at = int(v.nodes[at].skip)
		}
		if at >= to {
			return nil
		}
		if i < len(text)-1 {
			at, to = at+1, int(v.nodes[at].skip)
		}
	}
	return v.idsAt(at)
}

// idsAt is the tokens that end in a node.
func (v *Vocabulary) idsAt(node int) []int32 {
	first := int32(0)
	if node > 0 {
		first = v.nodes[node-1].ids
	}
	return v.ids[first:v.nodes[node].ids]
}
