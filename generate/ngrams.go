package generate

import "context"

// NGrams returns a Drafter that looks up the last ids of a text further up in it, and guesses what followed there: code
// that is edited and lists repeat themselves. It needs no model (prompt lookup; arXiv:2304.04487, §3).
func NGrams() Drafter { return &nGrams{last: map[gram]int32{}} }

// gramLen is the least number of ids that must be equal.
const gramLen = 3

type gram [gramLen]int32

// At most this many places are compared, over at most this many ids each.
const (
	mostPlaces = 16
	mostEqual  = 64
)

// nGrams knows where each gram of a text ends. What it knows is checked against the text, which may have changed.
type nGrams struct {
	last   map[gram]int32 // the last place, a number of ids before it
	before []int32        // of a place, the one before it with the same gram; 0 for none
}

// Draft guesses what followed the longest match, the last among equals, at most as many ids as were equal.
func (g *nGrams) Draft(_ context.Context, text []int32, n int) ([]int32, error) {
	end := len(text)
	if end <= gramLen {
		return nil, nil
	}
	if len(g.before) > end { // the text is another one
		clear(g.last)
		g.before = g.before[:0]
	}
	for at := len(g.before); at < end; at++ {
		place := int32(0)
		if at >= gramLen {
			key := gram(text[at-gramLen:])
			place, g.last[key] = g.last[key], int32(at)
		}
		g.before = append(g.before, place)
	}
	best, longest := 0, gramLen-1
	place := int(g.last[gram(text[end-gramLen:])])
	for range mostPlaces {
		if place == 0 || place >= end {
			break
		}
		equal := 0
		for equal < min(place, mostEqual) && text[place-1-equal] == text[end-1-equal] {
			equal++
		}
		if equal > longest {
			best, longest = place, equal
		}
		place = int(g.before[place])
	}
	if best == 0 {
		return nil, nil
	}
	var ids []int32
	for i := range min(n, longest) {
		if from := best + i; from < end {
			ids = append(ids, text[from])
		} else { // the text repeats itself at its end
			ids = append(ids, ids[from-end])
		}
	}
	return ids, nil
}
