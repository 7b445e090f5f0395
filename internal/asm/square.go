package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// square transposes lanes x lanes floats in registers that its user reserves for it: as many as lanes from rows on,
// which must stay unchanged from load to the last column, and from spare on 2 for AVX2, 8 for AVX-512. With strip it
// takes only 4 columns of each row of an AVX2 square, in 4 registers.
type square struct {
	asm
	rows, spare int
	strip       bool
}

// quarters returns the number of quarters of 4 columns.
func (s square) quarters() int {
	if s.strip {
		return 1
	}
	return s.lanes / 4
}

// row returns the register of quarter q of rows i, i+4, ...: their elements 4q to 4q+3, one row after the other.
func (s square) row(i, q int) reg.Register { return s.vec(s.rows + i*s.quarters() + q) }

// load reads the rows. Lanes that mask does not select may not exist; a nil mask selects all.
func (s square) load(row func(i int) Mem, mask reg.Register) {
	t := func(i int) reg.Register { return s.vec(s.spare + i) }
	for i := range 4 {
		if s.strip {
			s.loadStrip(row, mask, i)
			continue
		}
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

// loadStrip reads 4 floats of rows i and i+4.
func (s square) loadStrip(row func(i int) Mem, mask reg.Register, i int) {
	half := func(v reg.Register) reg.Register {
		return reg.Vector.Lookup(v.(reg.Physical).PhysicalIndex(), reg.S128)
	}
	r := s.row(i, 0)
	if mask == nil {
		s.VMOVUPS(row(i), half(r))
		s.VINSERTF128(U8(1), row(i+4), r, r)
		return
	}
	t := half(s.vec(s.spare))
	s.VMASKMOVPS(row(i), half(mask), half(r))
	s.VMASKMOVPS(row(i+4), half(mask), t)
	s.VINSERTF128(U8(1), t, r, r)
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
