package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/session"
)

// childEnv is the environment variable with the arguments of a child process: a seed, the number of texts to open, the
// limit of the folder, and the folder.
const childEnv = "HIPPO_STORE_CHILD"

// children holds the main functions of other child processes. Their variable childEnv is the name, a colon and the
// folder.
var children = map[string]func(dir string){}

func TestMain(t *testing.M) {
	args := os.Getenv(childEnv)
	if name, dir, ok := strings.Cut(args, ":"); ok && children[name] != nil {
		children[name](dir)
		return
	}
	if args != "" {
		var dir string
		var seed uint64
		var n int
		var limit int64
		if _, err := fmt.Sscanf(args, "%d %d %d %q", &seed, &n, &limit, &dir); err != nil {
			panic(err)
		}
		child(dir, seed, n, limit)
		return
	}
	os.Exit(t.Run())
}

// childOptions returns the options of the stores of all processes of a test.
func childOptions(t testing.TB, dir string, limit int64) Options {
	return Options{
		Model: language(t, hybrid), Identity: session.Identity{Model: "children", Chunk: chunk}, Memory: 60_000,
		Bucket: Folder(dir), Disk: limit, Refresh: -1,
	}
}

// childPlan returns text i of those that the child processes read.
func childPlan(i int) []session.Segment { return whole(text(100, 40), text(uint64(i), 30+i%40)) }

// child opens texts in a store of a folder and checks them. It prints each text once it is saved.
func child(dir string, seed uint64, n int, limit int64) {
	t := &testing.B{} // for the helpers; a failure ends the process
	o := childOptions(t, dir, limit)
	o.Report = func(err error) {
		fmt.Println("error", err)
		os.Exit(1)
	}
	s, err := New(context.Background(), o)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	defer s.Close()
	rng := rand.New(rand.NewPCG(seed, 1))
	for range n {
		i := rng.IntN(100)
		plan := childPlan(i)
		got, found, err := s.Open(context.Background(), Reading{Runner: session.Direct{}, Plan: plan})
		if err == nil && !slices.Equal(bits(got), plain(t, o.Model, plan)) {
			err = fmt.Errorf("text %d: other bits after %+v", i, *found)
		}
		if st := s.Stats(); err == nil && st.Memory > o.Memory {
			err = fmt.Errorf("%d bytes in memory, want at most %d", st.Memory, o.Memory)
		}
		if rng.IntN(3) == 0 && err == nil {
			if err = s.Flush(context.Background()); err == nil {
				fmt.Println("saved", i)
			}
		}
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
}

// start starts a child process.
func start(t *testing.T, dir string, seed uint64, n int, limit int64) (cmd *exec.Cmd, out *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+fmt.Sprintf("%d %d %d %q", seed, n, limit, dir))
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(pipe)
}

// TestTwoProcessesShareAFolder checks that processes that read texts at the same time, with too little space for all,
// get the same bits as without a store and leave the folder within its limit.
func TestTwoProcessesShareAFolder(t *testing.T) {
	const limit = 600_000
	dir := t.TempDir()
	var cmds []*exec.Cmd
	var outs []*bufio.Scanner
	for seed := range uint64(2) {
		cmd, out := start(t, dir, seed, 60, limit)
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	for i, out := range outs {
		for out.Scan() {
			if strings.HasPrefix(out.Text(), "error") {
				t.Error(out.Text())
			}
		}
		if err := cmds[i].Wait(); err != nil {
			t.Error(err)
		}
	}
	wantWhole(t, dir)
	var size int64
	for _, name := range files(t, dir) {
		o, _ := parseName(name)
		size += o.size
	}
	if size > limit+limit/8 || size < limit/2 {
		t.Errorf("%d bytes in the folder, want at most %d", size, limit)
	}
}

// wantWhole checks that a folder contains only complete objects.
func wantWhole(t *testing.T, dir string) {
	t.Helper()
	o := childOptions(t, dir, 0)
	o.Report = nil
	s := open(t, o.Model, o) // also removes temporary files
	for _, name := range files(t, dir) {
		x, ok := parseName(name)
		if !ok {
			t.Errorf("found %s", name)
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			_, _, err = s.decode(x, data)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// killsVariable is the environment variable with the number of processes that TestKilledProcess kills.
const killsVariable = "HIPPO_TEST_KILLS"

// TestKilledProcess repeatedly kills a process at random moments of turns, saves and evictions. It checks that every
// object is complete, that texts reported as saved are found, and that no partial files are left.
func TestKilledProcess(t *testing.T) {
	kills, dir := 30, t.TempDir()
	if testing.Short() {
		kills = 6
	}
	if n, err := strconv.Atoi(os.Getenv(killsVariable)); err == nil {
		kills = n
	}
	rng := rand.New(rand.NewPCG(1, 2))
	reported, torn := 0, 0
	for k := range kills {
		limit := int64(k%2) * 300_000
		cmd, out := start(t, dir, uint64(k), 1_000_000, limit)
		var saved []int
		lines := make(chan string)
		go func() {
			defer close(lines)
			for out.Scan() {
				lines <- out.Text()
			}
		}()
		// Kill it at a random moment after it has saved some texts.
		var kill <-chan time.Time
		after, later := rng.IntN(4), time.Duration(rng.IntN(30))*time.Millisecond
		for more := true; more; {
			if len(saved) == after && kill == nil {
				kill = time.After(later)
			}
			select {
			case line, ok := <-lines:
				if more = ok; !ok {
					break
				}
				i, err := strconv.Atoi(strings.TrimPrefix(line, "saved "))
				if err != nil {
					t.Fatal(line)
				}
				saved = append(saved, i)
			case <-kill:
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		cmd.Wait() // returns an error: the process was killed
		reported += len(saved)
		for _, name := range files(t, dir) {
			if strings.Contains(name, disk.TmpMark) {
				torn++
			}
		}
		wantWhole(t, dir)
		if len(saved) > 0 && limit == 0 {
			o := childOptions(t, dir, 0)
			s := open(t, o.Model, o)
			last := childPlan(saved[len(saved)-1])
			if found := s.Find(t.Context(), last); found.Cached != read(last, chunk).len() {
				t.Errorf("what was saved last is found up to %d of %d: %v", found.Cached, read(last, chunk).len(),
					found.Miss)
			}
		}
	}
	t.Logf("%d kills after %d texts were saved; %d files were torn", kills, reported, torn)
	if reported == 0 {
		t.Error("no process lived long enough to save anything")
	}
}
