package hugepage

import (
	"runtime"
	"testing"
	"time"
	"unsafe"
)

// TestLend checks that pieces do not overlap, that those of dead owners are lent again, and that a slab without lent
// pieces is released.
func TestLend(t *testing.T) {
	const n = 100_003
	type owner struct{ piece []float32 }
	var own slabs[float32]
	newOwner := func() *owner {
		o := &owner{}
		o.piece = lend(&own, o, n)
		return o
	}
	var all []*owner
	lent := map[unsafe.Pointer]bool{}
	for i := range 100 {
		o := newOwner()
		lent[unsafe.Pointer(&o.piece[0])] = true
		for j := range o.piece {
			o.piece[j] = float32(i)
		}
		all = append(all, o)
	}
	for i, o := range all {
		if len(o.piece) != n || o.piece[0] != float32(i) || o.piece[n-1] != float32(i) {
			t.Fatalf("piece %d was lent twice", i)
		}
	}
	free := func() (pieces, slabs int) {
		own.mu.Lock()
		defer own.mu.Unlock()
		for _, s := range own.open[n] {
			pieces += len(s.free)
		}
		return pieces, len(own.open[n])
	}
	each := newSlab[float32](n).all
	// Cleanups run some time after a collection.
	until := func(what string, ok func() bool) {
		for deadline := time.Now().Add(time.Minute); !ok(); runtime.GC() {
			if time.Now().After(deadline) {
				pieces, slabs := free()
				t.Fatalf("%s: %d pieces of %d slabs are free", what, pieces, slabs)
			}
		}
	}
	before, _ := free()
	for i := range all {
		if i%2 == 0 {
			all[i] = nil
		}
	}
	until("half of the owners are dead", func() bool { pieces, _ := free(); return pieces >= before+50-each })
	next := newOwner() // cleanups may still be running, so the test checks the address of the piece
	if !lent[unsafe.Pointer(&next.piece[0])] {
		t.Error("a new owner was not lent the piece of a dead one")
	}
	all = append(all, next)
	runtime.KeepAlive(all)
	all = nil
	until("all owners are dead", func() bool { _, slabs := free(); return slabs == 0 })
}
