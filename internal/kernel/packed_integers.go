package kernel

import "github.com/hippo-ssm/hippo/internal/parallel"

// Groups is a matrix W (N, K) whose elements are integers already, in groups of 32 of a row:
//
//	W[j, 32g+i] = scale·(factor[g]·q[32g+i] + least[g])
//
// Row sets q (K), factor and least (⌈K/32⌉ each, as float16) to those of row j, and returns its scale. Integers are
// from -128 to 127 for Int8, from -8 to 7 for Int4 and from 0 to 15 for Int4Min, which is the only one with least
// numbers. Several goroutines call Row.
type Groups struct {
	N, K int
	Row  func(j int, q []int8, factor, least []uint16) (scale float32)
}

// PackGroups is Pack for matrices of integers, which rounds nothing. The precision is Int8, Int4 or Int4Min.
func PackGroups(precision Precision, ms ...Groups) []*Packed {
	out := make([]*Packed, len(ms))
	for i, m := range ms {
		out[i] = &Packed{n: m.N, k: m.K, precision: precision}
	}
	makeGroups(out)
	for i, w := range out {
		parallel.For(w.panels(), pieceTerms/(w.width()*max(1, w.k)), func(lo, hi int) {
			row := newIntegerRow(w.k)
			for j := lo * w.width(); j < min(w.n, hi*w.width()); j++ {
				w.groups.row[j] = ms[i].Row(j, row.q, row.factor, row.least)
				row.store(w, j)
			}
		})
	}
	return out
}

// integerRow is a row of a matrix of integers.
type integerRow struct {
	q             []int8
	factor, least []uint16
}

func newIntegerRow(k int) integerRow {
	groups := ceil(k, groupTerms)
	return integerRow{make([]int8, k), make([]uint16, groups), make([]uint16, groups)}
}

// store sets row j of w. Elements past the end of a row are 0.
func (r *integerRow) store(w *Packed, j int) {
	var u [groupTerms]uint8
	zero := uint8(-w.form().zero)
	for g := range r.factor {
		part := r.q[g*groupTerms : min((g+1)*groupTerms, w.k)]
		for i, v := range part {
			u[i] = uint8(v) + zero
		}
		for i := len(part); i < groupTerms; i++ {
			u[i] = zero
		}
		w.setGroup(j, g, &u, r.factor[g], r.least[g])
	}
}

// Groups is the inverse of PackGroups for row j of integers.
func (w *Packed) Groups(j int, q []int8, factor, least []uint16) (scale float32) {
	var u [groupTerms]uint8
	zero := uint8(-w.form().zero)
	for g := range ceil(w.k, groupTerms) {
		factor[g], least[g] = w.group(j, g, &u)
		for i := range q[g*groupTerms : min((g+1)*groupTerms, w.k)] {
			q[g*groupTerms+i] = int8(u[i] - zero)
		}
	}
	return w.groups.row[j]
}
