package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/disktest"
)

func itoa(n int) string { return strconv.Itoa(n) }

// writeVersion returns a writer of a folder of several files that all contain the same version.
func writeVersion(version int) func(string) error {
	return func(tmp string) error {
		if err := os.Mkdir(filepath.Join(tmp, "sub"), 0o777); err != nil {
			return err
		}
		for _, name := range []string{"config.json", "model.safetensors", "sub/state"} {
			if err := os.WriteFile(filepath.Join(tmp, name), []byte(itoa(version)), 0o666); err != nil {
				return err
			}
		}
		return nil
	}
}

// readVersion returns the version of a folder, or 0 if there is none. A folder that is not whole fails the test.
func readVersion(t *testing.T, dir string) int {
	t.Helper()
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return 0
	}
	version := ""
	for i, name := range []string{"config.json", "model.safetensors", "sub/state"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || i > 0 && string(b) != version {
			t.Fatalf("%s is not whole: %s has %q, %v, want %q", dir, name, b, err, version)
		}
		version = string(b)
	}
	n, err := strconv.Atoi(version)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func noExchange(string, string) error { return errors.ErrUnsupported }

func TestWriteDirAtomic(t *testing.T) {
	for name, s := range map[string]dirSwap{
		"exchange": {exchange, func(string) {}}, // if the system supports it
		"renames":  {noExchange, func(string) {}},
	} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "runs", "a")
		for version := 1; version <= 3; version++ {
			if err := s.write(dir, writeVersion(version)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := readVersion(t, dir); got != version {
				t.Errorf("%s: version %d, want %d", name, got, version)
			}
			disktest.WantFiles(t, filepath.Dir(dir), "a")
		}
		full := errors.New("disk full")
		err := s.write(dir, func(tmp string) error { return errors.Join(writeVersion(4)(tmp), full) })
		if !errors.Is(err, full) {
			t.Errorf("%s: got %v, want %v", name, err, full)
		}
		wantError(t, err, dir, "as it was before")
		if got := readVersion(t, dir); got != 3 {
			t.Errorf("%s: version %d after a failed write, want 3", name, got)
		}
		disktest.WantFiles(t, filepath.Dir(dir), "a")
	}
}

// TestWriteDirAtomicStops stops a write at every stage as kill -9 would: nothing after the stage runs. At each stage
// some whole folder must exist, and recovering must leave a whole folder and remove everything else.
func TestWriteDirAtomicStops(t *testing.T) {
	type killed struct{}
	for mode, exchange := range map[string]func(a, b string) error{"exchange": exchange, "renames": noExchange} {
		for _, before := range []int{0, 1} { // is there an old folder?
			var stages []string
			record := dirSwap{exchange, func(s string) { stages = append(stages, s) }}
			run := func(s dirSwap, parent string) {
				dir := filepath.Join(parent, "a")
				if before > 0 {
					if err := WriteDirAtomic(dir, writeVersion(before)); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.write(dir, writeVersion(2)); err != nil {
					t.Fatal(err)
				}
			}
			run(record, t.TempDir())
			if len(stages) < 4 {
				t.Fatalf("only the stages %q", stages)
			}
			inPlace := slices.IndexFunc(stages, func(s string) bool {
				return s != "made" && s != "written" && s != "synced"
			})
			for i, stage := range stages {
				t.Run(fmt.Sprintf("%s/over %d/%s", mode, before, stage), func(t *testing.T) {
					parent := t.TempDir()
					dir := filepath.Join(parent, "a")
					func() {
						defer func() {
							if r := recover(); r != (killed{}) {
								t.Fatalf("stopped by %v", r)
							}
						}()
						run(dirSwap{exchange, func(s string) {
							if s == stage {
								panic(killed{})
							}
						}}, parent)
					}()
					want := before
					if i >= inPlace { // the new folder was complete and marked as such
						want = 2
					}
					// A stop in the middle of recovering does not change that.
					func() {
						defer func() { recover() }()
						dirSwap{exchange, func(string) { panic(killed{}) }}.recover(dir)
					}()
					for range 2 { // recovering twice is the same as once
						if err := RecoverDir(dir); err != nil {
							t.Fatal(err)
						}
						if got := readVersion(t, dir); got != want {
							t.Errorf("version %d after recovering, want %d", got, want)
						}
					}
					if want > 0 {
						disktest.WantFiles(t, parent, "a")
					} else {
						disktest.WantFiles(t, parent)
					}
					if err := WriteDirAtomic(dir, writeVersion(3)); err != nil || readVersion(t, dir) != 3 {
						t.Errorf("writing after recovering: %v", err)
					}
				})
			}
		}
	}
}

// TestRecoverDirStates checks states of the disk and the results of recovering. Numbers are versions.
func TestRecoverDirStates(t *testing.T) {
	const x, y = "-0123456789abcdef", "-fedcba9876543210"
	for name, c := range map[string]struct {
		before map[string]int // -1 is a folder that is not whole, -2 an empty one
		want   map[string]int
		err    string
	}{
		"nothing":                    {nil, nil, ""},
		"only the folder":            {map[string]int{"a": 1}, map[string]int{"a": 1}, ""},
		"only a temporary":           {map[string]int{"a.tmp" + x: -1}, nil, ""},
		"only the old one":           {map[string]int{"a.old" + x: 1}, map[string]int{"a": 1}, ""},
		"only the new one":           {map[string]int{"a.new" + x: 2}, map[string]int{"a": 2}, ""},
		"old and temporary":          {map[string]int{"a.old" + x: 1, "a.tmp" + y: -1}, map[string]int{"a": 1}, ""},
		"old and new":                {map[string]int{"a.old" + x: 1, "a.new" + x: 2}, map[string]int{"a": 2}, ""},
		"current and new":            {map[string]int{"a": 1, "a.new" + x: 2}, map[string]int{"a": 2}, ""},
		"current and old, half gone": {map[string]int{"a": 2, "a.old" + x: -1}, map[string]int{"a": 2}, ""},
		"made again, empty": {map[string]int{"a": -2, "a.old" + x: 1, "a.new" + x: 2},
			map[string]int{"a": 2}, ""},
		"made again, not empty": {map[string]int{"a": 3, "a.old" + x: 1, "a.new" + x: 2}, nil, "not empty"},
		"several new ones":      {map[string]int{"a.new" + x: 1, "a.new" + y: 2}, nil, "several"},
		"several old ones":      {map[string]int{"a.old" + x: 1, "a.old" + y: 2}, nil, "several"},
		"several old ones, not needed": {map[string]int{"a": 3, "a.old" + x: 1, "a.old" + y: 2},
			map[string]int{"a": 3}, ""},
		"folders of others": {map[string]int{"a": 1, "a.old-20250102": 1, "a.tmp-x": 1,
			"ab.old" + x: 1, "a.bak" + x: 1},
			map[string]int{"a": 1, "a.old-20250102": 1, "a.tmp-x": 1, "ab.old" + x: 1, "a.bak" + x: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			for name, version := range c.before {
				path := filepath.Join(parent, name)
				if err := os.Mkdir(path, 0o777); err != nil {
					t.Fatal(err)
				}
				if version == -2 {
					continue
				}
				if err := writeVersion(version)(path); err != nil {
					t.Fatal(err)
				}
				if version == -1 {
					os.Remove(filepath.Join(path, "model.safetensors"))
				}
			}
			err := RecoverDir(filepath.Join(parent, "a"))
			if c.err != "" {
				wantError(t, err, c.err, parent)
				c.want = c.before // nothing was touched
			} else if err != nil {
				t.Fatal(err)
			}
			var names []string
			for name, version := range c.want {
				names = append(names, name)
				if got := readVersion(t, filepath.Join(parent, name)); got != version {
					t.Errorf("%s has version %d, want %d", name, got, version)
				}
			}
			slices.Sort(names)
			disktest.WantFiles(t, parent, names...)
		})
	}
}

func TestDirAtomicErrors(t *testing.T) {
	parent := t.TempDir()
	file := filepath.Join(parent, "a")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	wantError(t, WriteDirAtomic(file, writeVersion(1)), file, "is a file, want a folder")
	wantError(t, RecoverDir(file), file, "is a file, want a folder")
	disktest.WantFiles(t, parent, "a")
	if err := RecoverDir(filepath.Join(parent, "missing", "b")); err != nil {
		t.Errorf("recovering where nothing is: %v", err)
	}
}

// TestWriteDirAtomicKilled kills a process that writes one version after another, at arbitrary moments.
func TestWriteDirAtomicKilled(t *testing.T) {
	const variable = "CHECKPOINT_TEST_DIR"
	if dir := os.Getenv(variable); dir != "" { // this is the process to be killed
		mode, dir, _ := strings.Cut(dir, ":")
		s := dirSwap{exchange, func(string) {}}
		if mode == "renames" {
			s.exchange = noExchange
		}
		for version := readVersion(t, dir) + 1; ; version++ {
			if err := s.write(dir, writeVersion(version)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, mode := range []string{"exchange", "renames"} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "a")
		last := 0
		for i := range 8 {
			c := exec.Command(os.Args[0], "-test.run=^TestWriteDirAtomicKilled$")
			c.Env = append(os.Environ(), variable+"="+mode+":"+dir)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			// The first process may start slowly. Give it the time to write something.
			for deadline := time.Now().Add(10 * time.Second); last == 0 &&
				time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				if _, err := os.Stat(dir); err == nil {
					break
				}
			}
			time.Sleep(time.Duration(30+7*i) * time.Millisecond)
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			c.Wait() // the error is that it was killed
			if err := RecoverDir(dir); err != nil {
				t.Fatal(err)
			}
			version := readVersion(t, dir)
			if version < last {
				t.Errorf("%s: version %d came back after version %d", mode, version, last)
			}
			last = version
		}
		if last == 0 {
			t.Errorf("%s: nothing was written", mode)
		}
		disktest.WantFiles(t, parent, "a")
	}
}
