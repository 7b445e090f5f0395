package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/disktest"
)

// TestSweep checks that files without a writer are removed, and that others stay.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "a"+TmpMark+"0123456789abcdef")
	other := filepath.Join(dir, "b"+TmpMark+"0123456789abcdef")
	for _, path := range []string{dead, other} {
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(path string) bool {
		_, err := os.Stat(path)
		return errors.Is(err, os.ErrNotExist)
	}
	err := Replace(filepath.Join(dir, "a"), func(f *os.File) error {
		if !gone(dead) || gone(other) {
			t.Error("Replace sweeps its own name only")
		}
		if err := Sweep(dir); err != nil {
			t.Error(err)
		}
		if !gone(other) || gone(f.Name()) {
			t.Error("Sweep removes the dead and leaves the living")
		}
		_, err := f.WriteString("new")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(text) != "new" {
		t.Errorf("found %q, %v", text, err)
	}
	f, err := Temp(dir, "c")
	if err != nil {
		t.Fatal(err)
	}
	g, err := Temp(dir, "c")
	if err != nil {
		t.Fatal(err)
	}
	if gone(f.Name()) || f.Name() == g.Name() {
		t.Errorf("Temp swept away %s for %s", f.Name(), g.Name())
	}
	if err := errors.Join(f.Close(), Sweep(dir)); err != nil || !gone(f.Name()) || gone(g.Name()) {
		t.Errorf("after closing %s: %v", f.Name(), err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// TestRemoveUnused checks that a shared lock keeps a file, and that two shared locks do not exclude each other.
func TestRemoveUnused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var users []*os.File
	for range 2 {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := TryLock(f, true); !ok || err != nil {
			t.Fatalf("shared lock: %v, %v", ok, err)
		}
		users = append(users, f)
	}
	for _, f := range users {
		if removed, err := RemoveUnused(path); removed || err != nil || !IsAt(f, path) {
			t.Errorf("in use: removed %v, %v", removed, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if removed, err := RemoveUnused(path); !removed || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
	if _, err := RemoveUnused(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("once more: %v", err)
	}
}

// TestSpace checks that the disk of the test has some free space.
func TestSpace(t *testing.T) {
	if n, err := Space(t.TempDir()); n <= 0 && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestSweepLeavesWriters checks that a file can be replaced while others sweep its folder.
func TestSweepLeavesWriters(t *testing.T) {
	dir := t.TempDir()
	var writers, sweeper sync.WaitGroup
	done := make(chan struct{})
	sweeper.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := Sweep(dir); err != nil {
				t.Error(err)
			}
		}
	})
	for n := range 4 {
		writers.Go(func() {
			for range 300 {
				err := Replace(filepath.Join(dir, strconv.Itoa(n%2)), func(f *os.File) error {
					_, err := f.WriteString("text")
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(done)
	sweeper.Wait()
	disktest.WantFiles(t, dir, "0", "1")
}
