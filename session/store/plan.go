package store

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/session"
)

// key names a state: it is the hash of the model and of the pieces that it has read, so that equal keys are equal bits.
type key [sha256.Size]byte

// cut is a place after a piece of a text, where a mark can stand.
type cut struct {
	at   int
	rung bool // a multiple of the chunk, or the end of a segment: marks in the bucket are looked for at these only
}

// reading is the plan of a text as the model sees it: the pieces that it reads one after another. Two plans with the
// same pieces are the same, however they were made of segments.
type reading struct {
	// syms has a number for each id: twice the id, and one more where a piece ends. As only the last number of a piece
	// is odd, no piece is the start of another.
	syms []uint32
	cuts []cut
}

// read cuts a plan into the pieces that a Runner makes of it.
func read(plan []session.Segment, chunk int) *reading {
	n := 0
	for _, s := range plan {
		n += len(s.IDs)
	}
	r := &reading{syms: make([]uint32, 0, n)}
	for _, s := range plan {
		for i, id := range s.IDs {
			sym, at := uint32(id)<<1, len(r.syms)+1
			end := i == len(s.IDs)-1
			if end || s.Drawn || at%chunk == 0 {
				sym |= 1
				r.cuts = append(r.cuts, cut{at, end || at%chunk == 0})
			}
			r.syms = append(r.syms, sym)
		}
	}
	return r
}

// len is the number of ids.
func (r *reading) len() int { return len(r.syms) }

// isCut reports whether a piece ends at a position, where the text starts too.
func (r *reading) isCut(at int) bool {
	return at == 0 || at <= r.len() && at > 0 && r.syms[at-1]&1 == 1
}

// lastCut is the last place at or before a position where a piece ends, 0 for none.
func (r *reading) lastCut(at int) int {
	for at > 0 && r.syms[at-1]&1 == 0 {
		at--
	}
	return at
}

// until is the start of a text up to a cut.
func (r *reading) until(at int) *reading {
	i, _ := slices.BinarySearchFunc(r.cuts, at, func(c cut, at int) int { return c.at - at })
	return &reading{r.syms[:at], r.cuts[:i+1]}
}

// keys are those of all cuts, in order, for a model with the key of its identity.
func (r *reading) keys(identity key) []key {
	keys := make([]key, len(r.cuts))
	h, from := identity, 0
	var text []byte
	for i, c := range r.cuts {
		text = append(text[:0], h[:]...)
		for _, sym := range r.syms[from:c.at] {
			text = binary.LittleEndian.AppendUint32(text, sym)
		}
		h, from = sha256.Sum256(text), c.at
		keys[i] = h
	}
	return keys
}

// part returns the segments of a plan from one position to another. Both are cuts, so that the pieces stay.
func part(plan []session.Segment, from, to int) (out []session.Segment) {
	at := 0
	for _, s := range plan {
		lo, hi := max(from-at, 0), min(to-at, len(s.IDs))
		if lo < hi {
			out = append(out, session.Segment{IDs: s.IDs[lo:hi], Drawn: s.Drawn})
		}
		at += len(s.IDs)
	}
	return out
}

// unknown is the log-probability of an id for which none was requested.
var unknown = float32(math.NaN())

// isUnknown reports whether a log-probability was never requested.
func isUnknown(p float32) bool { return p != p }
