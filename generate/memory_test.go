package generate

import (
	"runtime"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/model"
)

// TestIdleSessionHoldsItsState checks that batches that have read and written hold only their states and logits, since
// their working memory belongs to the model. It uses the shape of the preset tiny and narrower versions of the shapes
// of the releases.
func TestIdleSessionHoldsItsState(t *testing.T) {
	const sessions, most = 100, 1.05
	shapes := map[string]func(c *model.Config){
		"tiny":       func(*model.Config) {},
		"h3-125m":    func(c *model.Config) { c.DModel, c.NumHeads = 64, 4 },
		"mamba-130m": func(c *model.Config) { c.DModel = 96 },
	}
	for name, narrow := range shapes {
		t.Run(name, func(t *testing.T) {
			c, err := model.Preset(name)
			if err != nil {
				t.Fatal(err)
			}
			narrow(&c)
			c.VocabSize = 100
			m, err := model.New(c)
			if err != nil {
				t.Fatal(err)
			}
			m.Init(1)
			fill := func(i int) *Batch {
				s := NewBatch(m, 1)
				feed(t, s, text(uint64(i), 90+i%30))
				greedy(t, s, 3)
				return s
			}
			fill(0) // allocates the memory that the model allocates once
			before, size := heap(), 0
			all := make([]*Batch, sessions)
			for i := range all {
				all[i] = fill(i)
				size += all[i].StateSize() + 4*c.PaddedVocab()
			}
			if used := float64(heap()-before) / float64(size); used > most {
				t.Errorf("a session of %d KB holds %.3f times as much, want at most %v", size/sessions>>10, used, most)
			} else {
				t.Logf("a session of %d KB holds %.3f times as much", size/sessions>>10, used)
			}
			for i, s := range all {
				if s.Position() != 93+i%30 { // keeps all batches in use until here
					t.Errorf("session %d is at position %d", i, s.Position())
				}
			}
		})
	}
}

// heap returns the number of bytes in use after garbage collection.
func heap() int {
	runtime.GC()
	runtime.GC() // a sync.Pool is emptied by the second collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestSessionsShareMemory checks that batches that compute in turn in the same memory have the same logits as alone, so
// that this memory contains no part of a state. It covers every mixer that reads from left to right.
func TestSessionsShareMemory(t *testing.T) {
	const l = 40
	for _, kind := range model.MixerNames() {
		m := language(t, kind)
		first, second := text(1, l), text(2, l)
		var want [2][]float32
		for i, ids := range [][]int32{first, second} {
			s := NewBatch(m, 1)
			for _, id := range ids {
				feed(t, s, []int32{id})
			}
			want[i] = logits(s)
		}
		a, b := NewBatch(m, 1), NewBatch(m, 1)
		for i := range l {
			feed(t, a, first[i:i+1])
			feed(t, b, second[i:i+1])
		}
		if !slices.Equal(logits(a), want[0]) || !slices.Equal(logits(b), want[1]) {
			t.Errorf("%s: two sessions in turn have other logits than one after the other", kind)
		}
	}
}
