package words

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Unigram is the model of Kudo ("Subword Regularization", arXiv:1804.10959): every token has a log-probability, and a
// word becomes the tokens with the largest sum, found by Viterbi's algorithm.
type Unigram struct {
	Trie     trie
	Score    []float64 // by id
	Unknown  int32     // -1 for none
	UnkScore float64
	ByteID   [256]int32 // as in CharBPE
	Fuse     bool       // several unknown characters in a row are one unknown token
	Narrow   bool       // sums are float32, as in SentencePiece; otherwise float64
}

// UnknownPenalty is the difference in log-probability between the least likely token and an unknown character.
const UnknownPenalty = 10

// pathStep describes the best path to a position in a word: its score, and the start and id of its last token.
type pathStep struct {
	score float64
	from  int32
	id    int32 // -1 for an unknown character
}

func (m *Unigram) Encode(w *Worker, dst []int32, word []byte, _ bool) (ids []int32, bad int) {
	w.best = append(w.best[:0], pathStep{score: w.score})
	for range word {
		w.best = append(w.best, pathStep{from: -1})
	}
	reach := func(from, to int, score float64, id int32) {
		if score += w.best[from].score; m.Narrow {
			score = float64(float32(score))
		}
		if b := &w.best[to]; b.from < 0 || score > b.score {
			*b = pathStep{score, int32(from), id}
		}
	}
	for at := 0; at < len(word); {
		r, size := utf8.DecodeRune(word[at:])
		single := false
		if !(r == utf8.RuneError && size < 2) {
			node := int32(0)
			for i := at; i < len(word); i++ {
				if node = m.Trie.next(node, word[i]); node < 0 {
					break
				}
				if id := m.Trie.nodes[node].id; id >= 0 {
					reach(at, i+1, m.Score[id], id)
					single = single || i+1 == at+size
				}
			}
		}
		if !single {
			reach(at, at+size, m.UnkScore, -1)
		}
		at += size
	}
	w.score = w.best[len(word)].score
	return m.path(w, dst, word)
}

// path appends the ids of the best path.
func (m *Unigram) path(w *Worker, dst []int32, word []byte) (ids []int32, bad int) {
	start := len(dst)
	w.ends = w.ends[:0]
	for at := len(word); at > 0; at = int(w.best[at].from) {
		w.ends = append(w.ends, at)
	}
	for _, end := range slices.Backward(w.ends) {
		step := w.best[end]
		if step.id >= 0 {
			dst = append(dst, step.id)
			w.unknown = false
			continue
		}
		var ok bool
		if dst, ok = appendBytes(dst, &m.ByteID, word[step.from:end]); ok {
			w.unknown = false
		} else if m.Unknown < 0 {
			return dst[:start], int(step.from)
		} else if !w.unknown || !m.Fuse {
			dst = append(dst, m.Unknown)
			w.unknown = true
		}
	}
	return dst, -1
}

// trie stores strings by their bytes. The children of a node are adjacent, in the order of their bytes.
type trie struct{ nodes []trieNode }

type trieNode struct {
	child int32 // index of the first child
	id    int32 // id of the string that ends here, or -1
	n     uint16
	label byte
}

// NewTrie returns the trie of strings, which must not be empty. ids[i] belongs to strings_[i].
func NewTrie(strings_ []string, ids []int32) trie {
	order := make([]int32, len(strings_))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(strings.Compare(strings_[a], strings_[b]), cmp.Compare(a, b))
	})
	t := trie{nodes: []trieNode{{id: -1}}}
	type span struct{ node, lo, hi, depth int32 }
	queue := []span{{0, 0, int32(len(order)), 0}}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for s.lo < s.hi && len(strings_[order[s.lo]]) == int(s.depth) {
			if t.nodes[s.node].id < 0 {
				t.nodes[s.node].id = ids[order[s.lo]]
			}
			s.lo++
		}
		t.nodes[s.node].child = int32(len(t.nodes))
		for s.lo < s.hi {
			label := strings_[order[s.lo]][s.depth]
			hi := s.lo
			for hi < s.hi && strings_[order[hi]][s.depth] == label {
				hi++
			}
			queue = append(queue, span{int32(len(t.nodes)), s.lo, hi, s.depth + 1})
			t.nodes = append(t.nodes, trieNode{id: -1, label: label})
			t.nodes[s.node].n++
			s.lo = hi
		}
	}
	return t
}

// next returns the child of a node for a byte, or -1.
func (t *trie) next(node int32, b byte) int32 {
	n := &t.nodes[node]
	children := t.nodes[n.child : n.child+int32(n.n)]
	lo, hi := 0, len(children)
	for lo < hi {
		mid := (lo + hi) / 2
		if children[mid].label < b {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(children) && children[lo].label == b {
		return n.child + int32(lo)
	}
	return -1
}

// MaxPiece limits the bytes of a token of a unigram model, so that the time is linear in the text.
const MaxPiece = 256
