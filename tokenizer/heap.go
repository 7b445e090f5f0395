package tokenizer

// heap is a binary heap: pop takes the item that is before all others. The zero value is empty.
type heap[T interface{ before(T) bool }] []T

func (h *heap[T]) push(x T) {
	s := append(*h, x)
	*h = s
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !x.before(s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = x
}

func (h *heap[T]) pop() T {
	s := *h
	top, x := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(s) {
			break
		}
		if child+1 < len(s) && s[child+1].before(s[child]) {
			child++
		}
		if !s[child].before(x) {
			break
		}
		s[i] = s[child]
		i = child
	}
	s[i] = x
	return top
}
