package constrain

import (
	"bytes"
	"slices"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// Vocabulary holds the tokens of a tokenizer in a trie of their bytes. It does not contain special tokens, tokens
// without bytes and tokens that end a text, since texts are not written with them. It may be used by any number of
// goroutines.
type Vocabulary struct {
	nodes  []trieNode
	ids    []int32             // token ids of all nodes, in the order of the nodes
	size   int                 // the largest id plus one
	deep   int                 // length in bytes of the longest token
	plain  tokenizer.Tokenizer // decodes special tokens to nothing
	usable [256]bool
}

// trieNode is a node of the trie. The nodes are in the order in which a walk visits them.
type trieNode struct {
	x     byte
	depth int32 // depth of the parent, 0 for the root
	skip  int32 // index of the next node that is not below this one
	ids   int32 // end of its ids in Vocabulary.ids
	comma bool  // the text of a token at or below it contains a comma
}

// longestToken is the maximum length in bytes of a token that is used.
const longestToken = 256

// NewVocabulary returns the vocabulary of a tokenizer. ends lists tokens that end a text in addition to the tokenizer's
// own. markers lists the special tokens that the vocabulary contains, for example <|tool_call|>.
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
			// A character outside ASCII may be a single token, without tokens for each of its bytes.
			v.usable[x] = v.usable[x] || len(text) == 1 || x >= 0x80
		}
	}
	slices.SortStableFunc(all, func(a, b token) int { return bytes.Compare(a.text, b.text) })
	var path []int32 // nodes of the previous text
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

// spelled returns the tokens whose text is text.
func (v *Vocabulary) spelled(text string) []int32 {
	at, to := 0, len(v.nodes) // range of the nodes below that of the text so far
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

// idsAt returns the tokens that end in a node.
func (v *Vocabulary) idsAt(node int) []int32 {
	first := int32(0)
	if node > 0 {
		first = v.nodes[node-1].ids
	}
	return v.ids[first:v.nodes[node].ids]
}
