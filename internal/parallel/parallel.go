// Package parallel runs loops on all cores with results that do not depend on their number.
//
// A loop over n items is divided into chunks of grain items. The borders of the chunks depend only on n and grain. So a
// body that treats each chunk the same way wherever it runs, and a reduction that adds one partial result per chunk in
// the order of the chunks, give the same bits for any GOMAXPROCS.
package parallel

import (
	"runtime"
	"sync"
)

// Workers returns the largest number of goroutines that a loop started now would use, its caller included.
func Workers() int { return runtime.GOMAXPROCS(0) }

// OnSplit, unless nil, is called by each loop of more than one chunk, with a function that runs chunk i. It reports
// whether it has run all chunks, in any order; if not, the loop runs them. It is for tests that check which loops are
// divided among cores, or that the order of chunks does not matter. It must be set while no loop runs; nested loops
// call it on several goroutines.
var OnSplit func(chunks int, run func(i int)) (done bool)

// For calls f(lo, hi) for the chunks [i·grain, min(n, (i+1)·grain)) of [0, n), each exactly once, and returns when all
// are done. A grain below 1 means 1.
//
// The caller and up to Workers()-1 helpers run chunks, so f must be safe for concurrent use, and chunks run in no fixed
// order. A single chunk, or any number of them when GOMAXPROCS is 1, runs inline and in order. f may call For, and any
// number of goroutines may call For: a caller never waits for a chunk that has not started, so calls cannot deadlock.
//
// When f panics, For panics in its caller with the same value once all running chunks have ended; of several panics it
// takes that of the lowest chunk. The printed stack is the caller's; GOMAXPROCS=1 shows the stack of f.
func For(n, grain int, f func(lo, hi int)) {
	if n <= 0 {
		return
	}
	grain = max(grain, 1)
	chunks := (n-1)/grain + 1
	if chunks > 1 && OnSplit != nil && hooked(n, grain, chunks, f) {
		return
	}
	workers := min(Workers(), chunks)
	if workers == 1 {
		for lo := 0; lo < n; lo += grain {
			f(lo, min(n, lo+grain))
		}
		return
	}
	run(f, n, grain, chunks, workers-1)
}

// Each calls f for 0 to n-1, like For with a grain of 1.
func Each(n int, f func(i int)) {
	For(n, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i)
		}
	})
}

// hooked passes a loop to OnSplit.
func hooked(n, grain, chunks int, f func(lo, hi int)) (done bool) {
	return OnSplit(chunks, func(i int) { f(i*grain, min(n, (i+1)*grain)) })
}

// partials recycles the buffers of Sum.
var partials = sync.Pool{New: func() any { return new([]float64) }}

// Sum returns Σ_i f(chunk i) over the chunks of For, added in the order of the chunks: the result is the same to the
// last bit for any number of workers.
func Sum(n, grain int, f func(lo, hi int) float64) float64 {
	if n <= 0 {
		return 0
	}
	grain = max(grain, 1)
	chunks := (n-1)/grain + 1
	sum := 0.0
	if chunks == 1 || Workers() == 1 && OnSplit == nil {
		for lo := 0; lo < n; lo += grain {
			sum += f(lo, min(n, lo+grain))
		}
		return sum
	}
	buf := partials.Get().(*[]float64)
	defer partials.Put(buf)
	if cap(*buf) < chunks {
		*buf = make([]float64, chunks)
	}
	parts := (*buf)[:chunks]
	For(n, grain, func(lo, hi int) { parts[lo/grain] = f(lo, hi) })
	for _, p := range parts {
		sum += p
	}
	return sum
}
