package tokenizer

// addedSet finds added tokens, such as <|endoftext|>, in text. It is a trie of their bytes.
type addedSet struct {
	nodes []addedNode
	first [256]bool // the bytes that an added token begins with
}

type addedNode struct {
	next map[byte]int32
	id   int32 // the token that ends here, or -1
}

// add adds a token. The first of two with the same text holds.
func (s *addedSet) add(content string, id int32) {
	if len(s.nodes) == 0 {
		s.nodes = []addedNode{{id: -1}}
	}
	s.first[content[0]] = true
	at := int32(0)
	for i := range len(content) {
		to, ok := s.nodes[at].next[content[i]]
		if !ok {
			to = int32(len(s.nodes))
			s.nodes = append(s.nodes, addedNode{id: -1})
			if s.nodes[at].next == nil {
				s.nodes[at].next = map[byte]int32{}
			}
			s.nodes[at].next[content[i]] = to
		}
		at = to
	}
	if s.nodes[at].id < 0 {
		s.nodes[at].id = id
	}
}

// find finds the leftmost added token in text, of several there the longest, and returns its bounds and id. When it
// finds none, id is -1 and lo is where the search stopped: at the end of text, or, when last is false, where a token
// may begin that goes on behind the end.
func (s *addedSet) find(text []byte, at int, last bool) (lo, hi int, id int32) {
	if len(s.nodes) == 0 {
		return len(text), len(text), -1
	}
	for ; at < len(text); at++ {
		if !s.first[text[at]] {
			continue
		}
		id := int32(-1)
		node, end := int32(0), at
		for i := at; ; i++ {
			if s.nodes[node].id >= 0 {
				id, end = s.nodes[node].id, i
			}
			if i == len(text) {
				if !last && s.nodes[node].next != nil {
					return at, at, -1
				}
				break
			}
			to, ok := s.nodes[node].next[text[i]]
			if !ok {
				break
			}
			node = to
		}
		if id >= 0 {
			return at, end, id
		}
	}
	return len(text), len(text), -1
}
