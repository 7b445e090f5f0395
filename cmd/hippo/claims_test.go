package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// TestComparedTogether checks that each of several processes takes runs that no other has. A run of a killed process is
// taken over, and a run that another process holds is named. In the end each run has been made once.
func TestComparedTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	const runs = 4
	args := []string{"compare", "tiny.yaml", "h3,attention", "--params", "12000", "--time", "30ms", "--clock", "cpu",
		"--seeds", "2", "--out", "cmp", "--threads", "1"}
	said := func(log string) (numbers []string) {
		for _, m := range regexp.MustCompile(`run (\d) of 4: `).FindAllStringSubmatch(log, -1) {
			numbers = append(numbers, m[1])
		}
		return numbers
	}
	held := filepath.Join("cmp", "tiny", "seed-2")
	var before, made []string // runs that the killed process began, and the others
	err := disk.Claim(t.Context(), disk.Inside(filepath.Join(dir, held)), false, func(context.Context) error {
		killed := background(t, dir, args...)
		killed.waitFor("its first run", func() bool { return len(said(killed.said.String())) > 0 })
		if err := killed.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-killed.ended
		before = said(killed.said.String())
		together := []*process{background(t, dir, args...), background(t, dir, args...)}
		for _, p := range together {
			log := p.wantEnd(0)
			made = append(made, said(log)...)
			want := fmt.Sprintf("still to come: %s, from process %d on ", held, os.Getpid())
			if !strings.Contains(log, want) || !strings.Contains(log, "valid loss") {
				t.Errorf("found no %q and a table:\n%s", want, log)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	log := background(t, dir, args...).wantEnd(0)
	made = append(made, said(log)...)
	slices.Sort(made)
	all := slices.Compact(slices.Sorted(slices.Values(append(before, made...))))
	if len(slices.Compact(slices.Clone(made))) != len(made) || len(all) != runs || !slices.Contains(made, "3") {
		t.Errorf("one process made the runs %q and was killed, the others made %q, want each once", before, made)
	}
	if n := strings.Count(log, "done before"); n != runs-1 || strings.Contains(log, "still to come") {
		t.Errorf("the last found %d runs done, want %d:\n%s", n, runs-1, log)
	}
	left, err := filepath.Glob(filepath.Join(dir, "cmp", "*", "*", ".claim-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// TestKilledScore kills and restarts a process that answers lines, again and again, and checks that in the end there is
// one result for each line, in order.
func TestKilledScore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	if out, err := command(dir, "train", "--config", "tiny.yaml", "--train.steps", "1", "--out",
		"run").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const lines = 1500
	var in strings.Builder
	for n := range lines {
		fmt.Fprintf(&in, `{"text":"line %d of %d, and more of it"}`+"\n", n, lines)
	}
	if err := os.WriteFile(filepath.Join(dir, "in.jsonl"), []byte(in.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.jsonl")
	results := func() int {
		text, _ := os.ReadFile(out) // the file may not exist yet
		return strings.Count(string(text), "\n")
	}
	args := []string{"score", "in.jsonl", "--model", "run", "-o", "out.jsonl", "--json"}
	for range 3 {
		before := results()
		p := background(t, dir, args...)
		p.waitFor("some more lines", func() bool { return results() > before || before == lines })
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		<-p.ended
	}
	want := fmt.Sprintf(`{"before":%d,"lines":%d,"failed":0}`, results(), lines)
	if log := background(t, dir, args...).wantEnd(0); !strings.Contains(log, want) {
		t.Errorf("it said %s, want %s", log, want)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		var r struct{ Line int }
		if n++; json.Unmarshal([]byte(line), &r) != nil || r.Line != n {
			t.Fatalf("result %d: %s", n, line)
		}
	}
}
