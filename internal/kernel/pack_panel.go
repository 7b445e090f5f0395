package kernel

import (
	"math"
	"unsafe"
)

// setRows rounds and stores n rows from row j on, the first of a panel.
func (w *Packed) setRows(j, n int, rows []float32) {
	i := 0
	if cpu.has(packInt8Code|packInt4Code) && w.precision != Int4Min && w.k > 0 {
		for ; i+groupWidth <= n; i += groupWidth {
			w.setPanel(j+i, rows[i*w.k:][:groupWidth*w.k])
		}
	}
	for ; i < n; i++ {
		w.setGroups(j+i, rows[i*w.k:][:w.k])
	}
}

// setPanel is setGroups for the rows of a whole panel, in assembly whose lanes are rows.
func (w *Packed) setPanel(j int, rows []float32) {
	var scale [groupWidth]float32
	for r := range scale {
		exponent := rowExponent(largest(rows[r*w.k:][:w.k]))
		w.groups.row[j+r] = float32(math.Ldexp(1, exponent))
		if scale[r] = w.groups.row[j+r]; w.precision == Int4 {
			scale[r] = float32(math.Ldexp(1, -exponent))
		}
	}
	form := w.form()
	var x [groupTerms * groupWidth]float32 // x[16p + r] is term p of row r
	for g := range ceil(w.k, groupTerms) {
		terms := min(groupTerms, w.k-g*groupTerms)
		clear(x[terms*groupWidth:])
		transpose(x[:], rows[g*groupTerms:], terms, groupWidth, w.k, groupWidth)
		block := w.block(j/groupWidth, g/2)
		factors, ints := (*uint16)(unsafe.Pointer(&form.factors(block, g%2)[0])), &form.ints(block, g%2)[0]
		if w.precision == Int8 {
			vecPackInt8(&x[0], &scale[0], factors, ints)
		} else {
			vecPackInt4(&x[0], &scale[0], factors, ints)
		}
	}
}
