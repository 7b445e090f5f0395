package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// commands holds the programs that scripts and tests run. They are this test binary under other names, which TestMain
// puts on the path.
var commands = map[string]func(){"hippo": main}

func TestMain(m *testing.M) { testscript.Main(m, commands) }

// TestScript runs testdata/script/*.txtar. Each script holds commands that a user types, with their expected results.
func TestScript(t *testing.T) {
	// The variable HIPPO_GOLDEN is not used, as scripts name cases.
	goldens, err := filepath.Abs(filepath.Join("..", "..", "testdata", "golden"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			for _, v := range environment(e.WorkDir) {
				name, value, _ := strings.Cut(v, "=")
				e.Setenv(name, value)
			}
			e.Setenv("GOLDEN", goldens)
			for _, name := range []string{"tiny.yaml", "text.txt"} {
				if _, err := os.Lstat(filepath.Join(e.WorkDir, name)); err == nil {
					return fmt.Errorf("%s: every script has a file of this name, want another for its own", name)
				}
			}
			return setUp(e.WorkDir)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status": scriptStatus, "poke": scriptPoke, "cut": scriptCut, "edit": scriptEdit, "replace": scriptReplace,
			"utf16": scriptUTF16, "hub": scriptHub,
		},
	})
}

// environment returns the environment of programs under test. Their caches are inside dir.
func environment(dir string) []string {
	env := []string{"HOME=" + dir, "HIPPO_CACHE=" + filepath.Join(dir, "cache")}
	if cpu, ok := os.LookupEnv("HIPPO_CPU"); ok {
		env = append(env, "HIPPO_CPU="+cpu)
	}
	return env
}

// setUp fills a folder with tiny.yaml and text.txt.
func setUp(dir string) error {
	settings, err := os.ReadFile(filepath.Join("testdata", "tiny.yaml"))
	if err != nil {
		return err
	}
	text := make([]byte, 6000)
	corpus := data.Embedded()
	defer corpus.Close()
	err = corpus.Each(func(_ string, r io.Reader) error {
		_, err := io.ReadFull(r, text)
		return errors.Join(err, io.EOF) // stop: there is one document, of which only the beginning is needed
	})
	if !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("built-in text: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "tiny.yaml"), settings, 0o666),
		os.WriteFile(filepath.Join(dir, "text.txt"), text, 0o666),
	)
}

// scriptStatus is the script command "status N PROGRAM ARG...". It runs a program that must end with exit status N.
func scriptStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N PROGRAM ARG...")
	}
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}

// changeFile replaces the content of the file that a pattern matches.
func changeFile(ts *testscript.TestScript, pattern string, change func([]byte) []byte) {
	paths, err := filepath.Glob(ts.MkAbs(pattern))
	ts.Check(err)
	if len(paths) != 1 {
		ts.Fatalf("%s matches %q, want one file", pattern, paths)
	}
	text, err := os.ReadFile(paths[0])
	ts.Check(err)
	ts.Check(os.WriteFile(paths[0], change(text), 0o666))
}

// scriptPoke is the script command "poke FILE OFFSET HEX". It overwrites bytes of a file. A negative offset counts from
// the end of the file.
func scriptPoke(ts *testscript.TestScript, _ bool, args []string) {
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	value, err := hex.DecodeString(args[2])
	ts.Check(err)
	changeFile(ts, args[0], func(text []byte) []byte {
		if at < 0 {
			at += len(text)
		}
		copy(text[at:], value)
		return text
	})
}

// scriptCut is the script command "cut FILE N". It keeps the first N bytes of a file or, if N is negative, all but the
// last -N.
func scriptCut(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	changeFile(ts, args[0], func(text []byte) []byte {
		if n < 0 {
			n += len(text)
		}
		return text[:n]
	})
}

// scriptReplace is the script command "replace FILE OLD NEW". It replaces text that must be in the file.
func scriptReplace(ts *testscript.TestScript, _ bool, args []string) {
	changeFile(ts, args[0], func(text []byte) []byte {
		if !strings.Contains(string(text), args[1]) {
			ts.Fatalf("%s does not contain %q", args[0], args[1])
		}
		return []byte(strings.ReplaceAll(string(text), args[1], args[2]))
	})
}

// scriptUTF16 is the script command "utf16 FROM TO". It converts a text to UTF-16, little-endian, without a byte order
// mark.
func scriptUTF16(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	var wide []byte
	for _, u := range utf16.Encode([]rune(string(text))) {
		wide = binary.LittleEndian.AppendUint16(wide, u)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), wide, 0o666))
}

// scriptEdit is the script command "edit FILE nan|drop|reshape|rename TENSOR". It damages a tensor of a safetensors
// file.
func scriptEdit(ts *testscript.TestScript, _ bool, args []string) {
	path, how, name := ts.MkAbs(args[0]), args[1], args[2]
	f, err := checkpoint.OpenSafetensors(path)
	ts.Check(err)
	var out []checkpoint.Tensor
	found := false
	for _, n := range f.Names() {
		x, _ := f.Tensor(n)
		y := *x
		y.Shape, y.Data = slices.Clone(x.Shape), slices.Clone(x.Data)
		if n == name {
			found = true
			switch how {
			case "nan":
				copy(y.Data[len(y.Data)-4:], "\x00\x00\xc0\x7f")
			case "drop":
				continue
			case "reshape":
				y.Shape = append(y.Shape, 1)
			case "rename":
				y.Name += "_old"
			default:
				ts.Fatalf("edit: unknown change %q", how)
			}
		}
		out = append(out, y)
	}
	ts.Check(f.Close())
	if !found {
		ts.Fatalf("edit: %s has no tensor %s", args[0], name)
	}
	ts.Check(disk.WriteFile(path, func(w io.Writer) error { return checkpoint.WriteSafetensors(w, out, nil) }))
}

// command returns a command that runs hippo in a folder that setUp filled, without the settings of the user who runs
// the tests.
func command(dir string, args ...string) *exec.Cmd { return commandNamed("hippo", dir, args...) }

func commandNamed(program, dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(environment(dir), "PATH="+os.Getenv("PATH"))
	return cmd
}
