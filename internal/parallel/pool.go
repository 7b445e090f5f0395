package parallel

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// errGoexit is the panic of For when f ends its goroutine, which would go unnoticed on a helper.
var errGoexit = errors.New("parallel: the loop body called runtime.Goexit")

// loop is one call of For that helpers take part in.
type loop struct {
	f        func(lo, hi int)
	n, grain int
	chunks   int64
	next     atomic.Int64   // the next chunk to claim
	left     atomic.Int64   // chunks not yet done
	done     sync.WaitGroup // released when left reaches zero

	failed atomic.Int64 // the lowest chunk that panicked, or chunks
	mu     sync.Mutex   // guards cause, and failed when it is written
	cause  any          // the value with which chunk failed panicked
}

// queue passes loops to helpers. It is buffered, so that a helper that finishes one loop finds the next one. An entry
// whose loop has ended costs its reader one load. When it is full, all helpers are busy and a loop runs without more.
var queue = make(chan *loop, 64)

// helpers counts the helper goroutines. They are started when first needed, wait in queue, and never end.
var helpers atomic.Int64

// patience is how long a helper polls for its next loop, and a caller for the end of its loop, before it parks. Waking
// costs 50 µs or more on a virtual machine whose idle cores halt, which is as much as the work of many loops. The loops
// of a training step follow one another faster than this.
const patience = 200 * time.Microsecond

// poll calls ready until it returns true or patience is over, and reports its last result. In between it yields to
// other goroutines.
func poll(ready func() bool) bool {
	for start := time.Now(); time.Since(start) < patience; runtime.Gosched() {
		for range 32 {
			if ready() {
				return true
			}
		}
	}
	return false
}

// run runs the loop, with at most help helpers.
func run(f func(lo, hi int), n, grain, chunks, help int) {
	l := &loop{f: f, n: n, grain: grain, chunks: int64(chunks)}
	l.left.Store(l.chunks)
	l.failed.Store(l.chunks)
	l.done.Add(1)
	for range help {
		if !offer(l, help) {
			break
		}
	}
	l.share()
	if l.left.Load() > 0 && !poll(func() bool { return l.left.Load() == 0 }) {
		l.done.Wait()
	}
	if l.failed.Load() < l.chunks {
		panic(l.cause)
	}
}

// offer passes l to a helper, starting a new one while there are fewer than most, and reports whether it could.
func offer(l *loop, most int) bool {
	for h := helpers.Load(); h < int64(most); h = helpers.Load() {
		if helpers.CompareAndSwap(h, h+1) {
			go help(l)
			return true
		}
	}
	select {
	case queue <- l:
		return true
	default:
		return false
	}
}

// help is the main loop of a helper. Only a loop body that calls runtime.Goexit ends it.
func help(l *loop) {
	defer helpers.Add(-1)
	next := func() bool {
		select {
		case l = <-queue:
			return true
		default:
			return false
		}
	}
	for {
		l.share()
		l = nil // an ended loop may hold much memory
		if !poll(next) {
			l = <-queue
		}
	}
}

// share claims and runs chunks until none is left to claim.
func (l *loop) share() {
	for {
		i := l.next.Add(1) - 1
		if i >= l.chunks {
			return
		}
		l.chunk(i)
	}
}

// chunk runs chunk i, unless a lower one has panicked. Chunks are claimed in ascending order, so those below the lowest
// panic all run, and the panic that For reports does not depend on timing.
func (l *loop) chunk(i int64) {
	returned := false
	defer func() {
		if !returned {
			l.fail(i, recover())
		}
		if l.left.Add(-1) == 0 {
			l.done.Done()
		}
	}()
	if i < l.failed.Load() {
		lo := int(i) * l.grain
		l.f(lo, min(l.n, lo+l.grain))
	}
	returned = true
}

// fail records that chunk i panicked with cause, which is nil when it called runtime.Goexit.
func (l *loop) fail(i int64, cause any) {
	if cause == nil {
		cause = errGoexit
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i < l.failed.Load() {
		l.cause = cause
		l.failed.Store(i)
	}
}
