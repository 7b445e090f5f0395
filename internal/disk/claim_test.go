package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/disktest"
)

// withoutLocks disables file locks for a test, as on some network file systems.
func withoutLocks(t *testing.T) {
	t.Helper()
	before := claimLock
	claimLock = func(*os.File, bool) (bool, error) { return false, errors.ErrUnsupported }
	t.Cleanup(func() { claimLock = before })
}

// claimNow is Claim with a do that does nothing.
func claimNow(path string) error {
	return Claim(t0, path, false, func(context.Context) error { return nil })
}

var t0 = context.Background()

// TestClaim checks that a path has one holder, named in the errors of others, and is free again afterwards, and that no
// file remains.
func TestClaim(t *testing.T) {
	for _, locks := range []bool{true, false} {
		if !locks {
			withoutLocks(t)
		}
		root := t.TempDir()
		path := filepath.Join(root, "a", "run")
		if locks {
			path = Inside(path)
		}
		err := Claim(t0, path, false, func(context.Context) error {
			err := claimNow(path)
			var locked *LockedError
			if !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() ||
				!strings.HasPrefix(err.Error(), filepath.Clean(path)+" is in use by process ") {
				t.Errorf("a second claim: %v, want a LockedError that names process %d", err, os.Getpid())
			}
			if err := Claimed(t0, path, true); !errors.As(err, &locked) && locks {
				t.Errorf("%v, want a LockedError", err)
			}
			return claimNow(path + "2")
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(claimNow(path), Claimed(t0, path, false)); err != nil {
			t.Fatal(err)
		}
		disktest.WantFiles(t, root)
	}
}

// TestClaimRace checks that of many goroutines that claim and release a path at once, never two hold it, with locks and
// without, also if a dead holder has left its file, which all of them see.
func TestClaimRace(t *testing.T) {
	for _, locks := range []bool{true, false} {
		if !locks {
			withoutLocks(t)
		}
		dir := t.TempDir()
		var holders [3]atomic.Int32
		var took atomic.Int32
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				for i := range 60 {
					path := filepath.Join(dir, fmt.Sprint("run-", i/20))
					if i%20 == 0 {
						leaveClaim(t, path, 1, "another machine", -2*ClaimTerm)
					}
					err := Claim(t0, path, false, func(context.Context) error {
						took.Add(1)
						if n := holders[i/20].Add(1); n != 1 {
							t.Errorf("%d holders", n)
						}
						time.Sleep(50 * time.Microsecond)
						holders[i/20].Add(-1)
						return nil
					})
					var locked *LockedError
					if err != nil && !errors.As(err, &locked) {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if took.Load() == 0 {
			t.Error("nobody ever had the path")
		}
	}
}

// leaveClaim creates the file of a claim, unless it exists, as if its holder had written it the given time ago.
func leaveClaim(t *testing.T, path string, n int, machine string, ago time.Duration) {
	t.Helper()
	tmp, err := os.CreateTemp(filepath.Dir(path), "left-")
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(tmp, `{"pid":77,"host":"n7","machine":%q,"locked":true}`, machine)
	at := time.Now().Add(ago)
	err = errors.Join(err, tmp.Close(), os.Chtimes(tmp.Name(), at, at))
	if e := os.Link(tmp.Name(), claimName(path, n)); e != nil && !errors.Is(e, os.ErrExist) {
		err = errors.Join(err, e)
	}
	if err := errors.Join(err, os.Remove(tmp.Name())); err != nil {
		t.Fatal(err)
	}
}

// TestClaimOfOthers checks that a dead process of this machine holds nothing, and one of another machine for a term, by
// the clock of the folder. The results do not change if the clock of this process differs.
func TestClaimOfOthers(t *testing.T) {
	for _, c := range []struct {
		machine string
		ago     time.Duration
		taken   bool
	}{
		{machineName(), 0, true},
		{"another machine", 0, false},
		{"another machine", -ClaimTerm / 2, false},
		{"another machine", -2 * ClaimTerm, true},
		{"another machine", time.Hour, false},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "run")
		leaveClaim(t, path, 3, c.machine, c.ago)
		err := Claim(t0, path, false, func(context.Context) error {
			disktest.WantFiles(t, dir, "run.claim-4")
			return nil
		})
		var locked *LockedError
		switch {
		case c.taken && err != nil:
			t.Errorf("%+v: %v", c, err)
		case !c.taken && (!errors.As(err, &locked) || locked.Holder.PID != 77 || locked.Holder.Host != "n7"):
			t.Errorf("%+v: %v, want a LockedError of process 77 on n7", c, err)
		}
	}
	// A file that is not a valid claim counts only by its time.
	dir := t.TempDir()
	path := filepath.Join(dir, "run")
	if err := os.WriteFile(claimName(path, 1), []byte("{no JSON"), 0o666); err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if err := claimNow(path); !errors.As(err, &locked) || locked.Holder.PID != 0 {
		t.Errorf("%v, want a LockedError of an unknown process", err)
	}
}

// TestClaimSlow checks that a process that has looked, and then slept while others claimed the path and released it,
// does not take it from those who hold it afterwards.
func TestClaimSlow(t *testing.T) {
	withoutLocks(t)
	path := filepath.Join(t.TempDir(), "run")
	leaveClaim(t, path, 1, "another machine", -2*ClaimTerm)
	slept := false
	claimLock = func(*os.File, bool) (bool, error) {
		if !slept { // it is judging the dead holder
			slept = true
			if err := claimNow(path); err != nil { // another claims the path and releases it
				t.Error(err)
			}
			fresh, err := take(path, ClaimTerm)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := fresh.release(); err != nil {
					t.Error(err)
				}
			})
		}
		return false, errors.ErrUnsupported
	}
	var locked *LockedError
	if err := claimNow(path); !errors.As(err, &locked) {
		t.Errorf("%v, want a LockedError: another process has it", err)
	}
}

// TestClaimLost checks that a holder sends heartbeats, and notices that its file has been taken away.
func TestClaimLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	c, err := take(path, ClaimTerm)
	if err != nil {
		t.Fatal(err)
	}
	lost, stop := make(chan struct{}), make(chan struct{})
	before, err := os.Stat(c.name)
	if err != nil {
		t.Fatal(err)
	}
	old := before.ModTime().Add(-time.Hour)
	if err := os.Chtimes(c.name, old, old); err != nil {
		t.Fatal(err)
	}
	go c.beat(stop, time.Millisecond, func() { close(lost) })
	for { // the heartbeat has the file server's time
		if now, err := os.Stat(c.name); err != nil || !now.ModTime().Before(before.ModTime()) {
			break
		}
	}
	select {
	case <-lost:
		t.Fatal("lost, though nobody has taken it")
	default:
	}
	if err := os.Remove(c.name); err != nil {
		t.Fatal(err)
	}
	<-lost
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
}
