//go:build unix

package bench

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPeerEndsWhole: a peer that is no longer wanted ends with the programs that it has started.
func TestPeerEndsWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "child")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := runPeer(ctx, "sleep 300 & echo $! > "+file+"; wait", nil)
		ended <- err
	}()
	wait := func(what string, ok func() bool) {
		for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited in vain for %s", what)
			}
		}
	}
	child := 0
	wait("the child", func() bool {
		text, err := os.ReadFile(file)
		if err == nil {
			child, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	})
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	wait("the child's end", func() bool { return gone(child) })
}

// gone tells whether a process has ended, be it that nobody has asked for its status yet.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
