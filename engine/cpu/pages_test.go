package cpu

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/hippo-ssm/hippo/engine"
)

// pagesOf adds the pages of a sequence to held.
func pagesOf(held map[*engine.Page]bool, s *sequence) {
	for i := range s.Len {
		page, _, _ := s.At(i)
		held[page] = true
	}
}

// TestForksSharePages checks that a hundred forks of a long cache take the memory of one, and when each has continued,
// that of one more page for each.
func TestForksSharePages(t *testing.T) {
	const pages, forks, heads, hd = 30, 100, 2, 16
	o := engine.AttentionOptions{Heads: heads}
	for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8} {
		s := newSequence(p, 1, pages*engine.PageLen, 3*heads*hd)
		attend(o, []int{pages*engine.PageLen - 20}, s)
		held, all := map[*engine.Page]bool{}, []*sequence{s}
		for range forks {
			all = append(all, all[len(all)/2].fork()) // also forks of forks
		}
		for _, s := range all {
			pagesOf(held, s)
		}
		if len(held) != pages {
			t.Errorf("%v: %d forks of %d pages have %d pages", p, forks, pages, len(held))
		}
		for _, s := range all {
			attend(o, []int{1}, s)
			attend(o, []int{1}, s)
			pagesOf(held, s)
		}
		if len(held) != pages+forks { // the cache itself continues in its page
			t.Errorf("%v: %d forks of %d pages that have gone on have %d pages", p, forks, pages, len(held))
		}
	}
}

// TestForksDoNotChangeEachOther checks that forks that continue differently, including the forked sequence and forks of
// forks, get the results that each would have by itself.
func TestForksDoNotChangeEachOther(t *testing.T) {
	const at, heads, hd = engine.PageLen + 10, 2, 16
	o := engine.AttentionOptions{Heads: heads, Rotary: engine.Rotary{Dim: 8}}
	for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8} {
		// other replaces the positions of a sequence after those that it has seen.
		other := func(s *sequence, seed uint64) *sequence {
			x := newSequence(p, seed, s.x.Dim(0), s.x.Dim(1)).x
			copy(x.Data(), s.x.Data()[:s.position*x.Dim(1)])
			s.x = x
			return s
		}
		first := newSequence(p, 1, 2*engine.PageLen+30, 3*heads*hd)
		attend(o, []int{at}, first)
		second := other(first.fork(), 2)
		attend(o, []int{1}, first)
		attend(o, []int{1}, second)
		third, fourth := other(first.fork(), 3), other(second.fork(), 4)
		all := []*sequence{third, first, fourth, second}
		got := make([][]float32, len(all))
		for all[0].position < all[0].x.Dim(0) {
			for i, y := range attend(o, []int{1, 1, 1, 1}, all...) {
				got[i] = append(got[i], y...)
			}
		}
		for i, s := range all {
			alone := newSequence(p, 0, 1, s.x.Dim(1))
			alone.x = s.x
			attend(o, []int{at}, alone)
			attend(o, []int{1}, alone)
			if !slices.Equal(alone.chunks(o, 1), got[i]) {
				t.Errorf("%v: fork %d got other bits than alone", p, i)
			}
		}
	}
}

// TestWindowGivesPagesBack checks that pages that a window no longer sees are given back, after a long prompt and while
// tokens come one by one.
func TestWindowGivesPagesBack(t *testing.T) {
	const window, heads, hd = 100, 2, 16
	o := engine.AttentionOptions{Heads: heads, Window: window}
	s := newSequence(engine.Float32, 1, 2000, 3*heads*hd)
	attend(o, []int{50}, s)
	page, _, _ := s.At(0)
	first := weak.Make(page)
	page = nil
	attend(o, []int{1000}, s)
	for s.position < s.x.Dim(0) {
		attend(o, []int{1}, s)
		if most := s.KVCache.RowBytes(hd) * 2 * heads * (window + 2*engine.PageLen); s.Bytes() > most ||
			s.Len != window-1 {
			t.Fatalf("%d positions and %d bytes after %d, want at most %d", s.Len, s.Bytes(), s.position, most)
		}
	}
	runtime.GC()
	if first.Value() != nil {
		t.Error("the first page is still held")
	}
	runtime.KeepAlive(s)
}

// TestIdleCacheMemory checks that an idle sequence holds the memory of its positions, and of at most seven more.
func TestIdleCacheMemory(t *testing.T) {
	const heads, hd = 2, 16
	o := engine.AttentionOptions{Heads: heads}
	for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			s := newSequence(p, 1, 300, 3*heads*hd)
			for _, n := range slices.Concat([]int{5}, slices.Repeat([]int{1}, 80), []int{150},
				slices.Repeat([]int{1}, 65)) {
				attend(o, []int{n}, s)
				each := 2 * heads * s.RowBytes(hd)
				if got := s.Bytes(); got < s.Len*each || got > (s.Len+7)*each {
					t.Fatalf("%d bytes for %d positions of %d", got, s.Len, each)
				}
			}
		})
	}
}
