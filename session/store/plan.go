package store

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/session"
)

// key identifies a state. It is a hash of the model and the pieces read, so equal keys mean equal bits.
type key [sha256.Size]byte

// cut is the end of a piece of a text. Marks are at cuts only.
type cut struct {
	at   int
	rung bool // a multiple of the chunk or the end of a segment; other cuts have no marks in the bucket
}

// reading is a plan as the model sees it: pieces read one after another. Plans with the same pieces have equal
// readings, whatever their segments.
type reading struct {
	// syms has a number for each id: twice the id, plus one if the id ends a piece. Only the last number of a piece is
	// odd, so no piece is a prefix of another.
	syms []uint32
	cuts []cut
}

// read splits a plan into the pieces that a Runner reads.
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

// len returns the number of ids.
func (r *reading) len() int { return len(r.syms) }

// isCut reports whether a piece ends at a position. The start of the text counts as a cut.
func (r *reading) isCut(at int) bool {
	return at == 0 || at <= r.len() && at > 0 && r.syms[at-1]&1 == 1
}

// lastCut returns the end of the last piece that ends at or before a position, or 0.
func (r *reading) lastCut(at int) int {
	for at > 0 && r.syms[at-1]&1 == 0 {
		at--
	}
	return at
}

// until returns the text up to a cut.
func (r *reading) until(at int) *reading {
	i, _ := slices.BinarySearchFunc(r.cuts, at, func(c cut, at int) int { return c.at - at })
	return &reading{r.syms[:at], r.cuts[:i+1]}
}

// keys returns the keys of all cuts, in order, starting from the key of the scope.
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

// part returns the segments of a plan between two cuts. It does not change the pieces.
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

// unknown is the log-probability of an id for which none was computed.
var unknown = float32(math.NaN())

// isUnknown reports whether a log-probability is unknown.
func isUnknown(p float32) bool { return p != p }
