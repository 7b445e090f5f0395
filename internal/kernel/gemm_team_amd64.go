package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hippo-ssm/hippo/internal/parallel"
)

const (
	slab       = 2304    // columns of B, and rows of Aᵀ, in panels at a time: a multiple of unitN and panelA
	slabFloats = 1 << 21 // floats of each in panels at a time, at least slab·blockedK
	packWork   = 1 << 16 // floats that a task puts into panels, some 10 µs
	packCols   = 144     // columns of Bᵀ that a task puts into panels, a multiple of unitN
	taskTerms  = 1 << 20 // multiply-adds in a block of terms that are worth a task
)

// team is a product that workers compute together: they fill panels, each a part of them, then compute the tiles of C that
// those serve, then fill the next ones.
type team struct {
	product
	workers      int
	copyA, copyB bool // whether the operand is put into panels
	bufA, bufB   []float32
	ms, ns, ks   int // rows, columns and terms that the panels serve at a time

	// Tasks are numbered from the beginning to the end of the product.
	next   atomic.Int64 // the first one that nobody has begun
	done   atomic.Int64 // how many are done
	failed atomic.Bool  // a worker has panicked

	body func(lo, hi int) // a worker, as the body of a loop
}

// teams keeps teams with their panels from product to product, so that one makes no garbage.
var teams = sync.Pool{New: func() any {
	t := new(team)
	t.body = func(int, int) { t.work() }
	return t
}}

// shared computes the product by workers, with A, B or both in panels.
func (p *product) shared(workers int, copyA, copyB bool) {
	t := teams.Get().(*team)
	t.product, t.workers, t.copyA, t.copyB = *p, workers, copyA, copyB
	t.ms, t.ns, t.ks = p.m, p.n, p.k
	if copyA {
		t.ms = evenly(p.m, ceil(p.m, slab), panelA)
		t.ks = min(t.ks, slabFloats/t.ms/blockedK*blockedK)
		t.bufA = sized(t.bufA, t.ms*t.ks)
	}
	if copyB {
		t.ns = evenly(p.n, ceil(p.n, slab), unitN)
		t.ks = min(t.ks, slabFloats/t.ns/blockedK*blockedK)
		t.bufB = sized(t.bufB, t.ns*t.ks)
	}
	t.next.Store(0)
	t.done.Store(0)
	t.failed.Store(false)
	if workers == 1 {
		t.work()
	} else {
		parallel.For(workers, 1, t.body)
	}
	t.product = product{} // which would keep the memory of the operands alive
	teams.Put(t)
}

// sized returns a buffer of at least n floats: the one given if it is large enough.
func sized(buf []float32, n int) []float32 {
	if len(buf) < n {
		return make([]float32, n)
	}
	return buf
}

// work is what each worker does: it takes part in one phase after the other. One that begins late finds nothing left.
func (t *team) work() {
	returned := false
	defer func() {
		if !returned {
			t.failed.Store(true)
		}
	}()
	first := 0 // task of the phase
	for j := 0; j < t.n; j += t.ns {
		for i := 0; i < t.m; i += t.ms {
			for k := 0; k < t.k; k += t.ks {
				b := block{product: &t.product, i0: i, m: min(t.ms, t.m-i), j0: j, n: min(t.ns, t.n-j), k0: k, k: min(t.ks, t.k-k)}
				a, n := 0, 0
				if t.copyA {
					b.panelsA, a = t.bufA, b.tasksA()
				}
				if t.copyB {
					b.panelsB, n = t.bufB, b.tasksB()
				}
				t.phase(first, a+n, func(task int) {
					if task < a {
						b.fillA(task)
					} else {
						b.fillB(task - a)
					}
				})
				first += a + n
				rows, cols := b.grid(t.workers)
				down := ceil(b.m, rows)
				n = down * ceil(b.n, cols)
				t.phase(first, n, func(task int) {
					// Neighbours share the columns of B, so that a core finds them in its cache.
					i, j := task%down*rows, task/down*cols
					b.tile(i, min(b.m, i+rows), j, min(b.n, j+cols))
				})
				first += n
			}
		}
	}
	returned = true
}

// phase runs the tasks of n from first on that nobody else does. They begin when all before first are done: whoever does
// those is running, so this cannot wait for ever.
func (t *team) phase(first, n int, f func(task int)) {
	for {
		i := t.next.Load()
		if i >= int64(first+n) {
			return
		}
		if !t.next.CompareAndSwap(i, i+1) {
			continue
		}
		for spins := 1; t.done.Load() < int64(first); spins++ {
			if t.failed.Load() {
				return
			}
			if spins%64 == 0 {
				runtime.Gosched()
			}
		}
		f(int(i) - first)
		t.done.Add(1)
	}
}

// grid returns the height and width of the tiles of C that are tasks: small enough for all workers to end at about the same
// time, large enough to read what they need of A and B more often than they fetch it into the cache.
func (b *block) grid(workers int) (rows, cols int) {
	if workers == 1 {
		return b.m, b.n
	}
	depth := min(b.k, blockedK)
	cols = evenly(b.n, ceil(b.n, blockedN), unitN)
	rows = evenly(b.m, ceil(8*workers, ceil(b.n, cols)), unitM)
	rows = max(rows, evenly(taskTerms/(cols*depth), 1, unitM))
	if tiles := ceil(b.m, rows) * ceil(b.n, cols); tiles < 2*workers {
		cols = max(evenly(b.n, ceil(2*workers, ceil(b.m, rows)), unitN), evenly(taskTerms/(b.m*depth), 1, unitN))
	}
	return rows, min(cols, blockedN)
}

// A part of the panels for one block of terms is a task: parts of Aᵀ and B run over the terms, those of Bᵀ over columns.

func (b *block) partsA() int { return ceil(b.m*min(b.k, blockedK), packWork) }

func (b *block) partsB() int {
	if b.op == NT {
		return ceil(b.n, packCols)
	}
	return ceil(b.n*min(b.k, blockedK), packWork)
}

// tasksA and tasksB return the number of tasks that fill the panels.
func (b *block) tasksA() int { return b.partsA() * ceil(b.k, blockedK) }
func (b *block) tasksB() int { return b.partsB() * ceil(b.k, blockedK) }

// part returns the block of terms of a task and its part of it.
func (b *block) part(task, parts int) (k, depth, part int) {
	k = b.k0 + task/parts*blockedK
	return k, min(blockedK, b.k0+b.k-k), task % parts
}

// fillA copies a part of Aᵀ into its panels.
func (b *block) fillA(task int) {
	parts := b.partsA()
	k, depth, part := b.part(task, parts)
	lo, hi := depth*part/parts, depth*(part+1)/parts
	if lo < hi {
		to := b.operandA(k, depth)
		copyAVX2(hi-lo, b.m, &b.a[(k+lo)*b.lda+b.i0], b.lda, &to.at[lo*to.t], to.t, to.panel)
	}
}

// fillB copies or transposes a part of B into its panels.
func (b *block) fillB(task int) {
	parts := b.partsB()
	k, depth, part := b.part(task, parts)
	to := b.operandB(k, depth)
	if b.op == NT {
		j := part * packCols
		transpose(to.at[j/to.t*to.panel:], b.b[(b.j0+j)*b.ldb+k:], depth, min(packCols, b.n-j), b.ldb, to.t)
		return
	}
	lo, hi := depth*part/parts, depth*(part+1)/parts
	if lo < hi {
		copyAVX2(hi-lo, b.n, &b.b[(k+lo)*b.ldb+b.j0], b.ldb, &to.at[lo*to.t], to.t, to.panel)
	}
}

// transpose puts n rows of k floats into panels: element (j, p) goes to dst[j/width·width·k + p·width + j%width].
func transpose(dst, src []float32, k, n, ld, width int) {
	for j := 0; j < n; j += width {
		rows, r := min(width, n-j), 0
		for ; r+8 <= rows; r += 8 {
			packAVX2(k, &src[(j+r)*ld], ld, &dst[j*k+r], width)
		}
		if r < rows && rows > 8 { // once more with some of those before
			r = rows
			packAVX2(k, &src[(j+r-8)*ld], ld, &dst[j*k+r-8], width)
		}
		for ; r < rows; r++ {
			for p, v := range src[(j+r)*ld:][:k] {
				dst[j*k+p*width+r] = v
			}
		}
	}
}
