package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// square transposes lanes x lanes floats in registers that its user leaves to it: as many as lanes from rows on, untouched
// from load to the last column, and from spare on 2 for AVX2, 8 for AVX-512.
type square struct {
	asm
	rows, spare int
}

// row is the register of quarter q of rows i, i+4, ...: their elements 4q to 4q+3, one row after the other.
func (s square) row(i, q int) reg.Register { return s.vec(s.rows + i*s.lanes/4 + q) }

// load reads the rows. Lanes that mask does not select may not exist; nil selects all.
func (s square) load(row func(i int) Mem, mask reg.Register) {
	t := func(i int) reg.Register { return s.vec(s.spare + i) }
	for i := range 4 {
		for q := range s.lanes / 4 {
			s.asm.load(row(i+4*q), t(q), mask)
		}
		if s.lanes == 8 {
			s.VPERM2F128(U8(0x20), t(1), t(0), s.row(i, 0)) // the lower halves
			s.VPERM2F128(U8(0x31), t(1), t(0), s.row(i, 1)) // the upper halves
			continue
		}
		// A 4x4 transposition of quarters: first of pairs of quarters, then within them.
		s.VSHUFF32X4(U8(0x44), t(1), t(0), t(4))
		s.VSHUFF32X4(U8(0xee), t(1), t(0), t(5))
		s.VSHUFF32X4(U8(0x44), t(3), t(2), t(6))
		s.VSHUFF32X4(U8(0xee), t(3), t(2), t(7))
		s.VSHUFF32X4(U8(0x88), t(6), t(4), s.row(i, 0))
		s.VSHUFF32X4(U8(0xdd), t(6), t(4), s.row(i, 1))
		s.VSHUFF32X4(U8(0x88), t(7), t(5), s.row(i, 2))
		s.VSHUFF32X4(U8(0xdd), t(7), t(5), s.row(i, 3))
	}
}

// columns returns columns 4q to 4q+3: a 4x4 transposition in every quarter of quarter q of the rows.
func (s square) columns(q int) [4]reg.Register {
	t0, t1 := s.vec(s.spare), s.vec(s.spare+1)
	r0, r1, r2, r3 := s.row(0, q), s.row(1, q), s.row(2, q), s.row(3, q)
	s.VUNPCKLPS(r1, r0, t0)
	s.VUNPCKHPS(r1, r0, r1)
	s.VUNPCKLPS(r3, r2, t1)
	s.VUNPCKHPS(r3, r2, r3)
	s.VUNPCKLPD(t1, t0, r0)
	s.VUNPCKHPD(t1, t0, t0)
	s.VUNPCKLPD(r3, r1, r2)
	s.VUNPCKHPD(r3, r1, r3)
	return [4]reg.Register{r0, t0, r2, r3}
}
