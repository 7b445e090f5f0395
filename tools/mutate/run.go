package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// test is one test of a package whose binary is built with the mutants.
type test struct {
	binary
	name      string
	cpu, wall time.Duration // time of a run without a mutant
	kills     int
}

// binary is the test binary of a package, with the package's folder and the copy of that folder in which tests run.
type binary struct {
	path, dir, copy string
	short           bool // as go test -short
}

// shadow makes a tree in folder whose entries are links to those of the module, except for the package's folder dir and
// its parents. It returns the path to which the package's folder can be copied. Files that a mutant writes to the copy,
// such as runs or examples of failures, are neither seen by the next mutant nor left behind. A package at the module's
// root has no copy.
func shadow(folder, module, dir string) (string, error) {
	rel, err := filepath.Rel(module, dir)
	if err != nil || rel == "." {
		return "", err
	}
	for _, part := range strings.Split(rel, string(filepath.Separator)) {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return "", err
		}
		entries, err := os.ReadDir(module)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			if e.Name() == part {
				continue
			}
			if err := os.Symlink(filepath.Join(module, e.Name()), filepath.Join(folder, e.Name())); err != nil {
				return "", err
			}
		}
		folder, module = filepath.Join(folder, part), filepath.Join(module, part)
	}
	return folder, nil
}

// build compiles the test binaries of the packages o.tests with the instrumented subject into a folder.
func (s *subject) build(folder string, covering bool, o options) (all []binary, err error) {
	replace := map[string]string{}
	put := func(path, name, text string) error {
		replace[path] = filepath.Join(folder, name)
		return os.WriteFile(replace[path], []byte(text), 0o666)
	}
	const extra = "zz_mutants.go"
	err = errors.Join(os.MkdirAll(folder, 0o777), put(filepath.Join(s.dir, extra), extra, s.helper(covering)))
	for _, f := range s.files {
		text, _ := f.instrumented(s.sites)
		err = errors.Join(err, put(f.path, f.name, string(text)))
	}
	data, _ := json.Marshal(map[string]any{"Replace": replace})
	overlay := filepath.Join(folder, "overlay.json")
	if err = errors.Join(err, os.WriteFile(overlay, data, 0o666)); err != nil {
		return nil, err
	}
	for i, p := range o.tests {
		found, err := list[struct{ Dir string }]("-json=Dir", p)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(folder, fmt.Sprintf("tests%d.exe", i)) // Windows needs the ending
		out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", path, p).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", p, err, out)
		}
		place, err := shadow(filepath.Join(folder, fmt.Sprintf("tree%d", i)), s.module, found[0].Dir)
		if err != nil {
			return nil, err
		}
		all = append(all, binary{path, found[0].Dir, place, o.short})
	}
	return all, nil
}

// limits holds the limits on the CPU time and the wall time of a test process.
type limits struct{ cpu, wall time.Duration }

// run runs tests of one binary with an environment variable. It returns whether they pass, the CPU time that they took,
// and their output.
func (b binary) run(ctx context.Context, pattern, env string, l limits) (ok bool, cpu time.Duration, out []byte) {
	dir := b.dir
	if b.copy != "" {
		dir = b.copy
		if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(b.dir))); err != nil {
			return false, 0, []byte(err.Error())
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.wall)
	defer cancel()
	args := []string{b.path, "-test.run", pattern, "-test.failfast", "-test.timeout", "0", "-test.v",
		fmt.Sprint("-test.short=", b.short)}
	if runtime.GOOS != "windows" { // limits for endless loops, which may also take all memory
		limit := fmt.Sprintf(`ulimit -t %d; ulimit -v 12000000; exec "$@"`, int(l.cpu.Seconds()+1))
		args = append([]string{"sh", "-c", limit, "sh"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env)
	var buf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &buf, &buf
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if cmd.ProcessState != nil {
		cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return err == nil, cpu, buf.Bytes()
}

// kill runs the tests that reach a mutant until one fails, beginning with those that are likely to fail soon. It
// returns the name of the test that failed, or "".
func kill(ctx context.Context, number int, tests []*test) (by string, err error) {
	tests = slices.Clone(tests)
	slices.SortStableFunc(tests, func(a, b *test) int {
		return cmp.Compare(float64(a.cpu)/float64(1+a.kills), float64(b.cpu)/float64(1+b.kills))
	})
	for len(tests) > 0 {
		batch := tests[:1]
		total := limits{batch[0].cpu, batch[0].wall}
		for _, t := range tests[1:] { // short tests of one binary share a process
			if strings.Contains(batch[0].name+t.name, "/") || t.path != batch[0].path ||
				total.cpu+t.cpu > 200*time.Millisecond {
				break
			}
			batch = tests[:len(batch)+1]
			total.cpu, total.wall = total.cpu+t.cpu, total.wall+t.wall
		}
		var names []string
		for _, t := range batch {
			names = append(names, t.name)
		}
		pattern := "^(" + strings.Join(names, "|") + ")$"
		if len(batch) == 1 {
			pattern = patternOf(names[0])
		}
		// The CPU time limits tests that compute too long. The wall time limits tests that wait. It is generous, as
		// other processes may use the processor.
		ok, _, out := batch[0].run(ctx, pattern,
			fmt.Sprintf("HIPPO_MUTANT=%d", number), limits{3*total.cpu + 2*time.Second, 10*total.wall + time.Minute})
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if !ok {
			for _, t := range batch {
				if len(batch) == 1 || bytes.Contains(out, []byte("FAIL: "+t.name+" ")) {
					t.kills++
					return t.name, nil
				}
			}
			return names[0], nil // the process crashed
		}
		tests = tests[len(batch):]
	}
	return "", nil
}
