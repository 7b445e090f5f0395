package bpe

import (
	"maps"
	"slices"
)

// learnMerges learns merges from the words of a corpus and appends them, and their tokens, to spec.
//
// For every pair of adjacent tokens it stores the number of occurrences and the words that contain it. A merge changes
// only the words that contain its pair, so only the pairs in these words are recounted. The most frequent pair comes
// from a queue that is updated lazily: when an entry with an outdated count is taken, it is dropped, or queued again
// with the right count.
func learnMerges(spec *Spec, counts *wordCounts, merges int, minFrequency int64, progress func(done, total int)) {
	l := &learner{pairs: map[tokenPair]*pairInfo{}, queue: heap[pairEntry]{before: pairEntry.before}}
	for _, text := range slices.Sorted(maps.Keys(counts.count)) {
		ids := make([]int32, len(text))
		for i := range len(text) {
			ids[i] = spec.ByteID[text[i]]
		}
		l.words = append(l.words, trainWord{IDs: ids, count: *counts.count[text]})
	}
	idOf := map[string]int32{} // two merges can give the same token
	for id, token := range spec.Tokens {
		idOf[token] = int32(id)
	}
	for w := range l.words {
		l.count(int32(w), 1)
	}
	l.enqueue()
	for done := 0; done < merges; done++ {
		pair, ok := l.best(minFrequency)
		if !ok {
			return
		}
		token := spec.Tokens[pair.left] + spec.Tokens[pair.right]
		id, ok := idOf[token]
		if !ok {
			id = int32(len(spec.Tokens))
			idOf[token] = id
			spec.Tokens = append(spec.Tokens, token)
		}
		spec.Merges = append(spec.Merges, [2]int32{pair.left, pair.right})
		spec.Results = append(spec.Results, id)
		l.merge(pair, id)
		if progress != nil {
			progress(done+1, merges)
		}
	}
}

// trainWord is a word of the corpus, as its current tokens, and its number of occurrences.
type trainWord struct {
	IDs   []int32
	count int64
}

type tokenPair struct{ left, right int32 }

// pairInfo is the state of a pair.
type pairInfo struct {
	count   int64   // current number of occurrences in the corpus
	queued  int64   // highest count for which the queue has an entry
	words   []int32 // words that contain it, initially ascending; may include words that no longer do
	touched bool    // it is in learner.touched
}

// pairEntry is a pair and its count when it was queued.
type pairEntry struct {
	count int64
	pair  tokenPair
}

// before puts the most frequent pair first. Among equals the pair with the lower ids comes first.
func (e pairEntry) before(f pairEntry) bool {
	if e.count != f.count {
		return e.count > f.count
	}
	if e.pair.left != f.pair.left {
		return e.pair.left < f.pair.left
	}
	return e.pair.right < f.pair.right
}

type learner struct {
	words   []trainWord
	pairs   map[tokenPair]*pairInfo
	queue   heap[pairEntry]
	touched []tokenPair // pairs whose count has changed since enqueue
}

// count adds the pairs of a word to the counts (sign 1) or subtracts them (sign -1).
func (l *learner) count(w int32, sign int64) {
	word := l.words[w]
	for i := 1; i < len(word.IDs); i++ {
		pair := tokenPair{word.IDs[i-1], word.IDs[i]}
		info := l.pairs[pair]
		if info == nil {
			info = &pairInfo{}
			l.pairs[pair] = info
		}
		info.count += sign * word.count
		if n := len(info.words); sign > 0 && (n == 0 || info.words[n-1] != w) {
			info.words = append(info.words, w)
		}
		if !info.touched {
			info.touched = true
			l.touched = append(l.touched, pair)
		}
	}
}

// enqueue queues the pairs whose count exceeds their queued count, and deletes pairs that no longer occur.
func (l *learner) enqueue() {
	for _, pair := range l.touched {
		info := l.pairs[pair]
		info.touched = false
		switch {
		case info.count == 0:
			delete(l.pairs, pair)
		case info.count > info.queued:
			info.queued = info.count
			l.queue.push(pairEntry{info.count, pair})
		}
	}
	l.touched = l.touched[:0]
}

// best removes the most frequent pair from the queue and returns it, if it occurs at least minFrequency times.
func (l *learner) best(minFrequency int64) (pair tokenPair, ok bool) {
	for len(l.queue.items) > 0 {
		e := l.queue.pop()
		info := l.pairs[e.pair]
		switch {
		case info == nil || e.count != info.queued: // it no longer occurs, or there is a better entry
		case e.count != info.count:
			info.queued = info.count
			l.queue.push(pairEntry{info.count, e.pair})
		default:
			return e.pair, e.count >= minFrequency
		}
	}
	return tokenPair{}, false
}

// merge replaces a pair by the token id in all words.
func (l *learner) merge(pair tokenPair, id int32) {
	for _, w := range l.pairs[pair].words {
		ids := l.words[w].IDs
		n := 0 // once the pair has been found, ids[:n] is the merged word
		found := false
		for i := 0; i < len(ids); i, n = i+1, n+1 {
			if i+1 < len(ids) && ids[i] == pair.left && ids[i+1] == pair.right {
				if !found {
					found = true
					l.count(w, -1)
				}
				ids[n] = id
				i++
				continue
			}
			ids[n] = ids[i]
		}
		if found {
			l.words[w].IDs = ids[:n]
			l.count(w, 1)
		}
	}
	l.enqueue()
}
