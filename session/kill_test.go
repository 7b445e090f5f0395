package session

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// folderOf is the environment variable with the folder in which a child process works until it is killed.
const folderOf = "HIPPO_TEST_SESSIONS"

// kills returns the number of child processes to kill: the value of HIPPO_TEST_KILLS, or 30.
func kills(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("HIPPO_TEST_KILLS"))
	if err != nil {
		return 30
	}
	t.Logf("%d kills", n)
	return n
}

// turn runs turn i of a child process: it reads, writes, and sometimes rewinds.
func turn(t *testing.T, s *Session, i int) {
	if err := s.Append(t.Context(), text(uint64(i), 20+i%90)); err != nil {
		t.Fatal(err)
	}
	o := generate.DefaultOptions()
	o.Seed, o.MaxTokens = uint64(i), 10
	for _, err := range s.Generate(t.Context(), o) {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Mark(fmt.Sprint("turn ", i))
	if i%5 == 4 {
		if _, err := s.RewindTo(t.Context(), fmt.Sprint("turn ", i-3)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKilledProcessLosesNothing checks that a process killed at any moment, even during a save, leaves a complete
// session, at least as new as the last one that it reported as saved, and no other file.
func TestKilledProcessLosesNothing(t *testing.T) {
	m := language(t, hybrid)
	if dir := os.Getenv(folderOf); dir != "" {
		f := Folder{dir}
		h, err := f.Lock("story")
		if err != nil {
			t.Fatal(err)
		}
		s := New(m, tokenizer.Bytes(), Options{Budget: 1 << 20})
		for i := 0; ; i++ {
			turn(t, s, i)
			if err := s.Save(h.Path, FileOptions{Marks: 1 << 20}); err != nil {
				t.Fatal(err)
			}
			fmt.Println("saved", i)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "story"+suffix)
	rng := rand.New(rand.NewPCG(1, 2))
	for range kills(t) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledProcessLosesNothing$")
		cmd.Env = append(os.Environ(), folderOf+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		last := make(chan int, 1)
		first := make(chan struct{})
		go func() {
			said := -1
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if i, ok := strings.CutPrefix(lines.Text(), "saved "); ok {
					if said < 0 {
						close(first)
					}
					said, _ = strconv.Atoi(i)
				}
			}
			last <- said
		}()
		<-first
		time.Sleep(time.Duration(rng.Int64N(int64(30 * time.Millisecond))))
		cmd.Process.Kill()
		said := <-last
		cmd.Wait() // returns an error: the process was killed
		s, err := Load(path, m, tokenizer.Bytes(), Options{}, nil)
		if err != nil {
			t.Fatalf("after turn %d was saved: %v", said, err)
		}
		want := New(m, tokenizer.Bytes(), Options{})
		for i := 0; i <= said || want.Position() != s.Position() && i <= said+2; i++ {
			turn(t, want, i)
		}
		if fmt.Sprint(s.IDs(), s.Marks(), s.logits()) != fmt.Sprint(want.IDs(), want.Marks(), want.logits()) {
			t.Fatalf("after turn %d was saved there is another session", said)
		}
		h, err := Folder{dir}.Lock("story") // its holder is dead
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
		if all, err := (Folder{dir}).List(); err != nil || len(all) != 1 {
			t.Fatalf("the folder lists %v: %v", all, err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 1 {
			t.Fatalf("files are left: %v, %v", left, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFailedSaveKeepsSession checks that if a save fails, the error names the file, the old file stays, and the session
// can continue.
func TestFailedSaveKeepsSession(t *testing.T) {
	m := language(t, hybrid)
	s, dir := told(t, m), t.TempDir()
	path := filepath.Join(dir, "story")
	if err := s.Save(path, FileOptions{}); err != nil {
		t.Fatal(err)
	}
	f := s.Fork()
	if err := s.Append(t.Context(), text(3, 10)); err != nil {
		t.Fatal(err)
	}
	nowhere := filepath.Join(path, "story") // path is a file, not a folder
	if err := s.Save(nowhere, FileOptions{}); err == nil || !strings.Contains(err.Error(), nowhere) {
		t.Errorf("saving where there is no folder: %v", err)
	}
	full := fmt.Errorf("no space left")
	err := disk.WriteFile(path, func(w io.Writer) error {
		return s.Encode(limited{w, 1000, full}, FileOptions{})
	})
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("saving to a full disk: %v", err)
	}
	old, err := Load(path, m, tokenizer.Bytes(), Options{}, nil)
	if err != nil || rest(t, old) != rest(t, f) {
		t.Errorf("the old file is not what it was: %v", err)
	}
	if got, err := s.Rewind(t.Context(), f.Origin().Position); err != nil || got > 1 {
		t.Errorf("the session does not go on: %d read again, %v", got, err)
	}
}

// limited is a writer that returns an error for writes of more than n bytes.
type limited struct {
	w io.Writer
	n int
	e error
}

func (l limited) Write(p []byte) (int, error) {
	if len(p) > l.n {
		return 0, l.e
	}
	return l.w.Write(p)
}

// TestNamesAreHeld checks that a name can be locked once, that the error of a second lock names the holder, and that
// names cannot be paths.
func TestNamesAreHeld(t *testing.T) {
	f := Folder{filepath.Join(t.TempDir(), "sessions")}
	h, err := f.Lock("a.b-c_1")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("session a.b-c_1 is in use by process %d", os.Getpid())
	if _, err := f.Lock("a.b-c_1"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("held twice: %v, want %q", err, want)
	}
	other, err := f.Lock("b")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []*Lock{h, other} {
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", ".", "..", "../a", "a/b", `a\b`, "a b", ".a", "a.", "a..b", "é", "-a",
		strings.Repeat("a", maxName+1)} {
		if path, err := f.Path(name); err == nil {
			t.Errorf("the name %q is the file %s", name, path)
		}
	}
	if left, err := os.ReadDir(f.dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
