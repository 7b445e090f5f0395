package parallel

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// atProcs runs f as a subtest for several values of GOMAXPROCS.
func atProcs(t *testing.T, f func(t *testing.T)) {
	for _, procs := range []int{1, 2, 4} {
		t.Run(fmt.Sprintf("procs=%d", procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			if Workers() != procs {
				t.Fatalf("Workers() = %d, want %d", Workers(), procs)
			}
			f(t)
		})
	}
}

func TestForVisitsEachItemOnceInFixedChunks(t *testing.T) {
	atProcs(t, func(t *testing.T) {
		for _, n := range []int{-1, 0, 1, 2, 7, 64, 1000} {
			for _, grain := range []int{-3, 0, 1, 2, 3, 64, 999, 1000, 5000, math.MaxInt} {
				size := max(n, 0)
				seen := make([]int32, size)
				g := max(grain, 1)
				For(n, grain, func(lo, hi int) {
					if lo%g != 0 || lo >= hi || hi != min(n, lo+min(g, n)) {
						t.Errorf("n=%d grain=%d: chunk [%d,%d)", n, grain, lo, hi)
					}
					for i := lo; i < hi; i++ {
						seen[i]++ // a second visit from another goroutine is also a race
					}
				})
				for i, c := range seen {
					if c != 1 {
						t.Fatalf("n=%d grain=%d: item %d visited %d times", n, grain, i, c)
					}
				}
			}
		}
	})
}

func TestOnSplitSeesLoopsOfSeveralChunks(t *testing.T) {
	defer func() { OnSplit = nil }()
	for _, takes := range []bool{false, true} {
		splits := 0
		OnSplit = func(chunks int, run func(i int)) bool {
			splits++
			for i := chunks - 1; i >= 0 && takes; i-- {
				run(i)
			}
			return takes
		}
		atProcs(t, func(t *testing.T) {
			for _, c := range []struct{ n, grain, want int }{{0, 1, 0}, {1, 1, 0}, {8, 8, 0}, {9, 8, 1}, {100, 1, 1}} {
				var items atomic.Int64
				splits = 0
				For(c.n, c.grain, func(lo, hi int) { items.Add(int64(hi - lo)) })
				if splits != c.want || items.Load() != int64(c.n) {
					t.Errorf("For over %d by %d: %d calls, %d items, want %d calls", c.n, c.grain,
						splits, items.Load(), c.want)
				}
				splits = 0
				sum := Sum(c.n, c.grain, func(lo, hi int) float64 { return float64(hi - lo) })
				if splits != c.want || sum != float64(c.n) {
					t.Errorf("Sum over %d by %d: %d calls, sum %v, want %d calls", c.n, c.grain, splits, sum, c.want)
				}
			}
		})
	}
}

func TestForInlineIsOrderedAndDoesNotAllocate(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	last, total := 0, 0
	body := func(lo, hi int) {
		if lo != last {
			t.Errorf("chunk begins at %d, want %d", lo, last)
		}
		last, total = hi, total+hi-lo
	}
	allocs := testing.AllocsPerRun(100, func() { last = 0; For(10, 3, body) })
	if allocs != 0 || total != 101*10 {
		t.Errorf("%v allocations, %d items", allocs, total)
	}
	runtime.GOMAXPROCS(4)
	if allocs := testing.AllocsPerRun(100, func() { last = 0; For(10, 10, body) }); allocs != 0 {
		t.Errorf("one chunk: %v allocations", allocs)
	}
}

func TestForAllocatesLittle(t *testing.T) {
	// AllocsPerRun sets GOMAXPROCS to 1, so this test counts itself.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var hits atomic.Int64
	body := func(lo, hi int) { hits.Add(1) }
	sum := func(lo, hi int) float64 { hits.Add(1); return 1 }
	const calls = 1000
	for name, call := range map[string]func(){
		"For": func() { For(64, 1, body) },
		"Sum": func() { Sum(64, 1, sum) },
	} {
		call()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			call()
		}
		runtime.ReadMemStats(&after)
		if per := float64(after.Mallocs-before.Mallocs) / calls; per > 2.5 {
			t.Errorf("%s: %.1f allocations a call", name, per)
		}
	}
}

// patient is how long a chunk waits for another to start while it runs. On a busy machine all helpers may be busy, and
// a loop then correctly runs without them, so such tests try again.
const patient = 200 * time.Millisecond

// meet makes two chunks wait for each other, which is impossible inline. It reports whether they met.
func meet() bool {
	var arrived atomic.Int32
	var missed atomic.Bool
	For(2, 1, func(int, int) {
		arrived.Add(1)
		for deadline := time.Now().Add(patient); arrived.Load() < 2; runtime.Gosched() {
			if time.Now().After(deadline) {
				missed.Store(true)
				return
			}
		}
	})
	return !missed.Load()
}

func TestForUsesHelpers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for range 100 {
		if meet() {
			return
		}
	}
	t.Error("in 100 loops the second chunk was never begun beside the first")
}

func TestSumIsBitIdentical(t *testing.T) {
	const n, grain = 10007, 64
	partial := func(lo, hi int) float64 {
		s := 0.0
		for i := lo; i < hi; i++ {
			s += math.Sin(float64(i)) * 1e3 / float64(i+1)
		}
		return s
	}
	want := 0.0
	for lo := 0; lo < n; lo += grain {
		want += partial(lo, min(n, lo+grain))
	}
	atProcs(t, func(t *testing.T) {
		for range 50 {
			if got := Sum(n, grain, partial); got != want {
				t.Fatalf("Sum = %x, want %x", got, want)
			}
		}
		if got := Sum(0, 1, partial); got != 0 {
			t.Errorf("Sum over nothing = %v", got)
		}
	})
}

func TestNestedAndConcurrentCalls(t *testing.T) {
	atProcs(t, func(t *testing.T) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					var count atomic.Int64
					For(9, 2, func(lo, hi int) {
						For(hi-lo, 1, func(int, int) {
							s := Sum(10, 1, func(lo, hi int) float64 { return 1 })
							count.Add(int64(s))
						})
					})
					if count.Load() != 90 {
						t.Errorf("counted %d, want 90", count.Load())
					}
				}
			})
		}
		wg.Wait()
	})
}

// recovered returns the value with which f panics.
func recovered(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

func TestPanicIsThatOfTheLowestChunk(t *testing.T) {
	first := errors.New("chunk 5")
	atProcs(t, func(t *testing.T) {
		for range 200 {
			got := recovered(func() {
				For(100, 1, func(lo, hi int) {
					switch {
					case lo == 5:
						panic(first)
					case lo > 5:
						panic(lo)
					}
				})
			})
			if got != first {
				t.Fatalf("recovered %v, want %v", got, first)
			}
		}
		var hits atomic.Int64 // the helpers must survive
		For(100, 1, func(int, int) { hits.Add(1) })
		if hits.Load() != 100 {
			t.Errorf("%d chunks after a panic", hits.Load())
		}
	})
}

// TestGoexitOnHelper checks that a body that ends its helper does not block the caller.
func TestGoexitOnHelper(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	var got any
	for range 100 {
		var ended, missed atomic.Bool
		got = recovered(func() {
			var onCaller atomic.Bool
			caller := goroutineID()
			For(2, 1, func(int, int) {
				if goroutineID() == caller {
					onCaller.Store(true)
					for deadline := time.Now().Add(patient); !ended.Load(); runtime.Gosched() {
						if time.Now().After(deadline) {
							missed.Store(true)
							return
						}
					}
					return
				}
				for !onCaller.Load() {
					runtime.Gosched()
				}
				ended.Store(true)
				runtime.Goexit()
			})
		})
		if !missed.Load() {
			break
		}
	}
	if got != errGoexit {
		t.Fatalf("recovered %v, want %v", got, errGoexit)
	}
	var hits atomic.Int64
	For(100, 1, func(int, int) { hits.Add(1) })
	if hits.Load() != 100 {
		t.Errorf("%d chunks after a lost helper", hits.Load())
	}
}

// goroutineID returns the first line of the stack, which begins "goroutine N ".
func goroutineID() string {
	var buf [32]byte
	var id string
	fmt.Sscanf(string(buf[:runtime.Stack(buf[:], false)]), "goroutine %s", &id)
	return id
}

func BenchmarkFor(b *testing.B) {
	body := func(lo, hi int) {}
	for _, chunks := range []int{1, 2, 16, 256} {
		b.Run(fmt.Sprintf("chunks=%d", chunks), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				For(chunks, 1, body)
			}
		})
	}
}

// BenchmarkForWork shows the gain for a loop of some µs of work: each chunk spins a fixed count.
func BenchmarkForWork(b *testing.B) {
	for _, spins := range []int{2000, 10000, 40000, 400000} {
		for _, chunks := range []int{1, 2, 8} {
			b.Run(fmt.Sprintf("spins=%d/chunks=%d", spins, chunks), func(b *testing.B) {
				body := func(lo, hi int) {
					x := uint64(lo)
					for range spins / chunks * (hi - lo) {
						x = x*6364136223846793005 + 1442695040888963407
					}
					if x == 42 {
						b.Fatal("the body was not run")
					}
				}
				for b.Loop() {
					For(chunks, 1, body)
				}
			})
		}
	}
}
