package model

import (
	"fmt"
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// pieceLen is how many values are read at a time: few, so that little of the file is in memory, and whole blocks of
// every type that quantizes.
const pieceLen = 1 << 18

// pieces recycles the memory of values that are on their way to a packed form.
var pieces = sync.Pool{New: func() any { return new([]float32) }}

// withPiece calls use with memory for n values, whose contents are unspecified.
func withPiece(n int, use func(x []float32)) {
	piece := pieces.Get().(*[]float32)
	defer pieces.Put(piece)
	if cap(*piece) < n {
		*piece = make([]float32, n)
	}
	use((*piece)[:n])
}

// read sets dst to the values from at on of parameter i, and lets go of the memory of the file. Values that are not
// finite are an error.
func (l *filling) read(i int, dst []float32, at int) error {
	x := l.sources[i].Part(at, len(dst))
	defer x.Release()
	if err := x.ReadFloat32(dst); err != nil {
		return err
	}
	if bad := firstNonFinite(dst); bad >= 0 {
		return fmt.Errorf("found %v at element %d of %d, want finite numbers", dst[bad], at+bad, l.params[i].Len())
	}
	return nil
}

// readAll sets dst to all values of parameter i. With a nil dst it only tells whether that is possible.
func (l *filling) readAll(i int, dst []float32) (err error) {
	n := l.params[i].Len()
	for at := 0; at < n && err == nil; at += pieceLen {
		size := min(pieceLen, n-at)
		if dst != nil {
			err = l.read(i, dst[at:][:size], at)
		} else {
			withPiece(size, func(x []float32) { err = l.read(i, x, at) })
		}
	}
	return err
}

// readPlain reads parameters into one piece of memory, in the order in which a forward pass reads them, and returns
// functions that set them.
func (l *filling) readPlain(which []int) (set []func()) {
	lengths := make([]int, len(which))
	for at, i := range which {
		lengths[at] = l.params[i].Len()
	}
	for at, values := range tensor.Together(lengths...) {
		i := which[at]
		l.report(i, l.readAll(i, values))
		set = append(set, func() { l.params[i].SetData(values) })
	}
	return set
}

// readPacked reads matrices into their packed form, and returns functions that set them.
func (l *filling) readPacked(which []int, p engine.Precision) (set []func()) {
	ms, bad := make([]engine.Matrix, len(which)), make([]firstError, len(which))
	for at, i := range which {
		n, k := l.params[i].Dim(0), l.params[i].Dim(1)
		ms[at] = engine.Matrix{N: n, K: k, Rows: func(j, rows int, use func([]float32)) {
			withPiece(rows*k, func(x []float32) {
				if err := l.read(i, x, j*k); err != nil {
					bad[at].add(j, err)
				}
				use(x)
			})
		}}
	}
	forms := autograd.PackRows(p, ms...)
	for at, i := range which {
		l.report(i, bad[at].err)
		set = append(set, func() { l.params[i].SetPacked(forms[at]) })
	}
	return set
}

// firstError is the error of the first of several parts, which come in any order.
type firstError struct {
	mu  sync.Mutex
	at  int
	err error
}

func (f *firstError) add(at int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || at < f.at {
		f.at, f.err = at, err
	}
}
