package kernel

import "sync"

// A tile of a direct filter needs every tap for each of its rows. Near the beginning of a sequence, and at its end,
// there is no such tile, and rows are filtered one by one. A short sequence consists mostly of such rows. So it is
// filtered in a copy with zeros around it, so that every tap contributes and the zeros change nothing.
const (
	shortRows = 96        // the longest sequence for which this is worth while
	shortCols = 4 * Lanes // channels at a time
	margin    = 24        // rows of zeros before and after: enough for a tile and its taps
)

// shortBuffers holds the channels of a short sequence for a goroutine, with zeros before and after.
type shortBuffers struct {
	in, out [(margin + shortRows + margin) * shortCols]float32
	taps    [(shortRows + margin) * shortCols]float32
}

var shortPool = sync.Pool{New: func() any { return new(shortBuffers) }}

// isShort reports whether to filter rows of d channels at the beginning of a sequence in a copy.
func isShort(d, rows int) bool {
	return cpu.has(firTileCode) && d > 0 && d%Lanes == 0 && rows > 1 && rows <= shortRows
}

// short computes the first count rows of the sequence in out, from t on in steps of 1 or -1: skip·in + Σ_i
// taps[i]·in[t-i·step], added to their contents if add is true.
func (f directFilter) short(skip []float32, t, count, step int, add bool) {
	buf := shortPool.Get().(*shortBuffers)
	defer shortPool.Put(buf)
	height, width := cpu.firTile()
	m := min(f.m, count)
	first, at := min(t, t+(count-1)*step), margin // the first row in memory, and the index of row t in the copy
	if step < 0 {
		at += count - 1
	}
	for c := 0; c < f.d; c += shortCols {
		w := min(shortCols, f.d-c)
		in, out := buf.in[margin*w:], buf.out[margin*w:]
		clear(buf.in[:margin*w])
		copyColumns(in, w, f.in.From(first).X[c:], f.in.Step, w, count)
		clear(in[count*w:][:margin*w])
		copyColumns(buf.taps[:], w, f.taps[c:], f.d, w, m)
		clear(buf.taps[m*w:][:width*w])
		for v := 0; v < w; v += Lanes {
			z, x, by := Rows{out[v:], w}, Rows{in[v:], w}, Rows{X: skip[c+v:]}
			if add {
				MulAddRows(z, Rows{f.out.From(first).X[c+v:], f.out.Step}, x, by, count, Lanes)
			} else {
				MulRows(z, x, by, count, Lanes)
			}
		}
		for r := 0; r < count; r += height {
			// All rows of the tile use as many taps as its last row.
			n := ceil(min(m, r+height), width)
			row := (at + r*step) * w
			vecFirTile(w, n, &buf.out[row], step*w, &buf.taps[0], &buf.in[row], step*w)
		}
		copyColumns(f.out.From(first).X[c:], f.out.Step, out, w, w, count)
	}
}

// shortTapsGrad is FIRTapsGrad for a short sequence.
func shortTapsGrad(dtaps, dy, x []float32, d, l, lo, hi int) {
	buf := shortPool.Get().(*shortBuffers)
	defer shortPool.Put(buf)
	height, width := cpu.firTile()
	for c := 0; c < d; c += shortCols {
		w := min(shortCols, d-c)
		clear(buf.in[:margin*w])
		copyColumns(buf.in[margin*w:], w, x[c:], d, w, l)
		clear(buf.in[(margin+l)*w:][:width*w])
		copyColumns(buf.out[:], w, dy[c:], d, w, l)
		clear(buf.out[l*w:][:width*w])
		copyColumns(buf.taps[:], w, dtaps[lo*d+c:], d, w, hi-lo)
		for i := lo; i < hi; i += height {
			// From position i on the first tap of the tile contributes.
			vecFirTile(w, ceil(l-i, width), &buf.taps[(i-lo)*w], w, &buf.out[i*w], &buf.in[margin*w], -w)
		}
		copyColumns(dtaps[lo*d+c:], d, buf.taps[:], w, w, hi-lo)
	}
}

// copyColumns copies n rows of w floats.
func copyColumns(dst []float32, dstStep int, src []float32, srcStep, w, n int) {
	if dstStep == w && srcStep == w {
		copy(dst[:n*w], src)
		return
	}
	for t := range n {
		copy(dst[t*dstStep:][:w], src[t*srcStep:])
	}
}
