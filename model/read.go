package model

import (
	"fmt"
	"sync"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// pieceLen is the number of values read at a time. It is small, so that little of the file is held in memory, and a
// multiple of the block of every quantized type.
const pieceLen = 1 << 18

// pieces recycles memory for values that are not packed yet.
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

// badTensor is a tensor of the file with unusable values.
type badTensor struct {
	name string
	err  error
}

// read sets dst to the values of parameter i from index at on, and releases the memory of the file. It reports values
// that are not finite.
func (l *filling) read(i int, dst []float32, at int) *badTensor {
	for p := range l.sources[i] {
		source := &l.sources[i][p]
		n := source.Elements()
		if at < n && len(dst) > 0 {
			part := dst[:min(n-at, len(dst))]
			if err := readFinite(source, part, at); err != nil {
				return &badTensor{source.Name, err}
			}
			dst, at = dst[len(part):], n
		}
		at -= n
	}
	return nil
}

// ReadFinite sets dst to all values of a tensor, which must be finite.
func ReadFinite(x *checkpoint.Tensor, dst []float32) error { return readFinite(x, dst, 0) }

// readFinite sets dst to the values of a tensor from index at on. They must be finite.
func readFinite(x *checkpoint.Tensor, dst []float32, at int) error {
	part := x.Part(at, len(dst))
	defer part.Release()
	if err := part.ReadFloat32(dst); err != nil {
		return err
	}
	if part.SurelyFinite() {
		return nil
	}
	if bad := firstNonFinite(dst); bad >= 0 {
		return fmt.Errorf("found %v at element %d of %d, want finite numbers", dst[bad], at+bad, x.Elements())
	}
	return nil
}

// tryAll returns the first problem in the values of parameter i, or nil.
func (l *filling) tryAll(i int) (bad *badTensor) {
	n := l.params[i].Len()
	for at := 0; at < n && bad == nil; at += pieceLen {
		withPiece(min(pieceLen, n-at), func(x []float32) { bad = l.read(i, x, at) })
	}
	return bad
}

// readPlain reads parameters into one allocation, in the order in which a forward pass reads them, and returns
// functions that set them. All cores read pieces concurrently: most of the time goes into the system's allocation of
// memory.
func (l *filling) readPlain(which []int) (set []func()) {
	lengths := make([]int, len(which))
	for at, i := range which {
		lengths[at] = l.params[i].Len()
	}
	type piece struct{ of, at int }
	var all []piece
	for of, n := range lengths {
		for at := 0; at < n; at += pieceLen {
			all = append(all, piece{of, at})
		}
	}
	values, bad := tensor.Together(lengths...), make([]firstBad, len(which))
	parallel.For(len(all), 1, func(lo, hi int) {
		for _, p := range all[lo:hi] {
			dst := values[p.of][p.at:]
			bad[p.of].add(p.at, l.read(which[p.of], dst[:min(pieceLen, len(dst))], p.at))
		}
	})
	for of, i := range which {
		l.report(bad[of].bad)
		set = append(set, func() { l.params[i].SetData(values[of]) })
	}
	return set
}

// readPacked reads matrices into their packed form, and returns functions that set them.
func (l *filling) readPacked(which []int, how form) (set []func()) {
	bad := make([]firstBad, len(which))
	var forms []tensor.Packed
	if how.as == integers {
		ms := make([]engine.Groups, len(which))
		for at, i := range which {
			ms[at] = l.groups(i, &bad[at])
		}
		forms = l.backend.PackGroups(how.precision, ms...)
	} else {
		ms := make([]engine.Matrix, len(which))
		for at, i := range which {
			ms[at] = l.matrix(i, &bad[at])
		}
		forms = l.backend.Pack(how.precision, engine.PackAs(how.as), ms...)
	}
	for at, i := range which {
		l.report(bad[at].bad)
		set = append(set, func() { l.params[i].SetPacked(forms[at]) })
	}
	return set
}

// matrix returns parameter i as a matrix to pack.
func (l *filling) matrix(i int, bad *firstBad) engine.Matrix {
	n, k := l.params[i].Dim(0), l.params[i].Dim(1)
	m := engine.Matrix{N: n, K: k, Rows: func(j, rows int, use func([]float32)) {
		withPiece(rows*k, func(x []float32) {
			bad.add(j, l.read(i, x, j*k))
			use(x)
		})
	}}
	if sources := l.sources[i]; len(sources) == 1 && sources[0].DType == checkpoint.BF16 && sources[0].InOrder() {
		var seen sync.Map // ranges of rows known to be finite, as rows are read twice
		m.BF16 = func(j, rows int, use func([]byte)) {
			part := sources[0].Part(j*k, rows*k)
			defer part.Release()
			err := part.UseData(use)
			if _, again := seen.LoadOrStore([2]int{j, rows}, true); err == nil && !again && !part.SurelyFinite() {
				withPiece(rows*k, func(x []float32) { err = readFinite(&sources[0], x, j*k) })
			}
			if err != nil {
				bad.add(j, &badTensor{sources[0].Name, err})
			}
		}
	}
	return m
}

// groups returns parameter i, whose tensors are integers in groups.
func (l *filling) groups(i int, bad *firstBad) engine.Groups {
	n, k := l.params[i].Dim(0), l.params[i].Dim(1)
	return engine.Groups{N: n, K: k, Row: func(j int, q []int8, factor, least []uint16) float32 {
		at := j
		for p := range l.sources[i] {
			source := &l.sources[i][p]
			rows := source.Elements() / k
			if at >= rows {
				at -= rows
				continue
			}
			scale, err := source.ReadGroups(at, q, factor, least)
			if err != nil {
				bad.add(j, &badTensor{source.Name, err})
			}
			releaseRows(source, at, k)
			return scale
		}
		return 0
	}}
}

// releaseRows releases the memory of rows of k elements up to row j. It does so once for every pieceLen/k rows.
func releaseRows(x *checkpoint.Tensor, j, k int) {
	if rows := max(1, pieceLen/k); (j+1)%rows == 0 {
		part := x.Part((j+1-rows)*k, rows*k)
		part.Release()
	}
}

// firstBad holds the error of the first of several parts, whose results arrive in any order.
type firstBad struct {
	mu  sync.Mutex
	at  int
	bad *badTensor
}

// add records the result of the part that starts at index at; a nil bad means no error.
func (f *firstBad) add(at int, bad *badTensor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if bad != nil && (f.bad == nil || at < f.at) {
		f.at, f.bad = at, bad
	}
}
