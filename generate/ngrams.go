package generate

import "context"

// NGrams returns a Drafter that searches for the last ids of a text earlier in the text, and guesses the ids that
// followed there. This works well for edited code and lists, which repeat themselves. It needs no model (prompt lookup;
// arXiv:2304.04487, §3).
func NGrams() Drafter { return &nGrams{last: map[gram]int32{}} }

// gramLen is the minimum length of a match.
const gramLen = 3

type gram [gramLen]int32

// mostPlaces is the maximum number of matches that are compared, and mostEqual the maximum length of a match.
const (
	mostPlaces = 16
	mostEqual  = 64
)

// nGrams records where each gram of a text ends. Matches are verified, since the text may have changed.
type nGrams struct {
	last   map[gram]int32 // the end of the last occurrence
	before []int32        // for each position, the end of the occurrence before of the gram that ends there; 0 for none
}

// Draft guesses the ids that followed the longest match, the last one of equals. It guesses at most as many ids as the
// match has.
func (g *nGrams) Draft(_ context.Context, text []int32, n int) ([]int32, error) {
	end := len(text)
	if end <= gramLen {
		return nil, nil
	}
	if len(g.before) > end { // it is another text
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
		} else { // the match overlaps the end of the text
			ids = append(ids, ids[from-end])
		}
	}
	return ids, nil
}
