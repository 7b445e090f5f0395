package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/disktest"
)

// TestLockDir checks that a folder has one holder, named in the errors of others, and is free again after Release.
func TestLockDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	first, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = LockDir(dir)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() {
		t.Fatalf("a second lock: %v, want a LockedError that names process %d", err, os.Getpid())
	}
	for _, want := range []string{dir + " is in use by process ", " on ", ", since 20", filepath.Base(os.Args[0])} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: found no %q", err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	disktest.WantFiles(t, dir, "file")
	again, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

// TestLockDirLeavesNothing checks that a folder that was created for the lock and stayed empty is removed with it, as
// are its parents, and that an existing folder stays.
func TestLockDirLeavesNothing(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{filepath.Join(root, "a", "b"), root} {
		l, err := LockDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
		disktest.WantFiles(t, root)
	}
}

// TestLockDirStale checks that the file of a killed process does not hold the folder.
func TestLockDirStale(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, LockFile), []byte(" {\"pid\":1,\"host\":\"here\"}\nrest"),
		0o666); err != nil {
		t.Fatal(err)
	}
	l, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if h := readHolder(l.path); h.PID != os.Getpid() {
		t.Errorf("holder %+v, want this process", h)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	disktest.WantFiles(t, dir)
}

// TestLockDirRace checks that of many goroutines that lock and release a folder at once, never two hold it.
func TestLockDirRace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var holders atomic.Int32
	var took atomic.Int32
	var wg sync.WaitGroup
	failed := make(chan error, 8)
	for range cap(failed) {
		wg.Go(func() {
			for range 200 {
				l, err := LockDir(dir)
				var locked *LockedError
				if errors.As(err, &locked) {
					continue
				}
				if err != nil {
					failed <- err
					return
				}
				took.Add(1)
				if n := holders.Add(1); n != 1 {
					failed <- fmt.Errorf("%d holders", n)
					return
				}
				holders.Add(-1)
				if err := l.Release(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	if took.Load() == 0 {
		t.Error("nobody ever had the folder")
	}
}
