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

// TestPeerEndsWhole checks that a cancelled peer ends with the programs that it has started.
func TestPeerEndsWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "child")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := runPeer(ctx, "sleep 100000 & echo $! > "+file+"; wait", nil)
		ended <- err
	}()
	child := 0
	for child == 0 {
		if text, err := os.ReadFile(file); err == nil {
			child, _ = strconv.Atoi(strings.TrimSpace(string(text))) // 0 while it is not written
		}
		select {
		case err := <-ended:
			t.Fatalf("the peer has ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	for !gone(child) { // the time limit of the test bounds this
		time.Sleep(time.Millisecond)
	}
}

// gone reports whether a process has ended, even if its status has not been collected yet.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// TestPeerScript checks that bench/peer.sh starts every peer with the given number of threads and the BLAS kernels that
// the environment or the processor determines, and that its rows name both.
func TestPeerScript(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const row = `echo '{"peer":"pytorch","bench":"train","threads":'$OMP_NUM_THREADS',"asked":"'$OPENBLAS_CORETYPE'",` +
		`"tokens_per_s":9}'`
	write("bench.py", row)
	// This compiler's programs print what OpenBLAS's would. Its arguments are SOURCE -o PROGRAM and libraries.
	write("cc", "#!/bin/sh\n"+`echo '#!/bin/sh
echo core $OPENBLAS_CORETYPE
echo 1024 1024 1024 NN 101.5' >"$3"
chmod +x "$3"`)
	t.Setenv("PEERS", dir)
	t.Setenv("PYTHON", "sh")
	t.Setenv("CC", filepath.Join(dir, "cc"))
	for _, c := range []struct {
		core, command string
		threads       float64
	}{{"Zen", "train a", 1}, {"Zen", "--threads 2 train a", 2}, {"Zen", "gemm", 1}, {"", "train a", 1}} {
		t.Setenv("OPENBLAS_CORETYPE", c.core)
		unset, want := "", c.core
		if c.core == "" { // determined by the processor
			unset = "unset OPENBLAS_CORETYPE; "
			info, _ := os.ReadFile("/proc/cpuinfo") // the file may not exist
			switch flags := string(info); {
			case strings.Contains(flags, " avx512f "):
				want = "SkylakeX"
			case strings.Contains(flags, " avx2 "):
				want = "Haswell"
			}
		}
		var stderr strings.Builder
		rows, err := runPeer(t.Context(), unset+"sh peer.sh "+c.command, &stderr)
		if err != nil || len(rows) != 1 {
			t.Fatalf("%s: %d rows, want 1: %v\n%s", c.command, len(rows), err, stderr.String())
		}
		asked, ok := rows[0].Get("asked")
		core, _ := rows[0].Get("blas_core")
		if n, _ := rows[0].Number("threads"); n != c.threads || core != want || ok && asked != want {
			t.Errorf("%s with %q: %v, want %v threads and kernels %q", c.command, c.core, rows[0], c.threads, want)
		}
		if want != "" && !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: says %q, want the kernels %s", c.command, stderr.String(), want)
		}
	}
}
