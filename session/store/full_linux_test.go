package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/hippo-ssm/hippo/session"
)

// TestFullFolder checks that if files cannot grow large enough, as on a full disk, the store continues in memory, the
// error names the folder, and no partial files are left.
func TestFullFolder(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"=full:"+dir)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

func init() { children["full"] = fullFolder }

// fullFolder is the child process of the test, which limits the size of files.
func fullFolder(dir string) {
	signal.Ignore(syscall.SIGXFSZ) // writes then fail with an error
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1000, Max: 1000}); err != nil {
		fmt.Println(err)
	}
	t := &testing.B{}
	o := childOptions(t, dir, 0)
	var told error
	o.Report = func(err error) { told = err }
	s, err := New(context.Background(), o)
	if err != nil {
		fmt.Println(err)
		return
	}
	g := Reading{Runner: session.Direct{}}
	for i, n := range []int{100, 120} {
		g.Plan = whole(text(1, n))
		_, found, err := s.Open(context.Background(), g)
		if err != nil || i == 1 && found.Cached < 80 {
			fmt.Println(found, err)
		}
		flushed := s.Flush(context.Background())
		for _, err := range []error{flushed, told} {
			if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), "store "+dir) {
				fmt.Println("told", err)
			}
		}
	}
}
