package library

import (
	"net/http"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/status"
)

// TestServeGivesMemoryBack checks that a model that was loaded, used and unloaded ten times leaves no memory,
// goroutines or open files behind.
func TestServeGivesMemoryBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "one")
	size := modelOfWidth(t, dir, 768, 1)
	l := newLibrarian(t, Options{KeepAlive: -1}, dir)
	files := func() int {
		t.Helper()
		open, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	// turn loads the model, uses it and unloads it, and waits until most of its memory is freed.
	turn := func() (left uint64) {
		t.Helper()
		l.reply("one")
		held := status.RSS()
		l.ask(http.StatusOK, http.MethodPost, "/api/generate", `{"model":"one","keep_alive":0}`)
		for late := deadline(t); status.RSS()+uint64(size)/2 > held; {
			select {
			case <-late:
				t.Fatalf("%d MiB with a model of %d MiB, and %d when it has gone", held>>20, size>>20, status.RSS()>>20)
			case <-time.After(time.Millisecond):
			}
		}
		return status.RSS()
	}
	turn()
	goroutines, opened := runtime.NumGoroutine(), files()
	before := turn()
	after := before
	for range 3 {
		after = turn()
	}
	// the last memory is about to be freed
	for late := deadline(t); after > before+uint64(size)/2; after = status.RSS() {
		select {
		case <-late:
			t.Fatalf("%d MiB after five times, %d after the first", after>>20, before>>20)
		case <-time.After(time.Millisecond):
		}
	}
	t.Logf("a model of %d MiB: %d MiB after it has gone, %d after five times", size>>20, before>>20, after>>20)
	// the last ones are about to end
	for late := deadline(t); runtime.NumGoroutine() > goroutines || files() > opened; {
		select {
		case <-late:
			t.Fatalf("%d goroutines and %d files, and were %d and %d", runtime.NumGoroutine(), files(), goroutines,
				opened)
		case <-time.After(time.Millisecond):
		}
	}
}

// deadline is done a while before the test times out, so that the test can report what it waited for.
func deadline(t *testing.T) <-chan time.Time {
	end, ok := t.Deadline()
	if !ok {
		return nil
	}
	const report = 10 * time.Second
	return time.After(time.Until(end) - report)
}
