package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// TestComparedTogether: of several processes each takes a run that no other has. The run of one that was killed is
// taken over, the one that another process has is named; in the end each run has been made once.
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
	killed := background(t, dir, args...)
	killed.waitFor("its first run", func() bool { return len(said(killed.said.String())) > 0 })
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-killed.ended
	held := filepath.Join(dir, "cmp", "tiny", "seed-2")
	var made []string
	err := disk.Claim(t.Context(), disk.Inside(held), false, func(context.Context) error {
		var together []*process
		for range 2 {
			together = append(together, background(t, dir, args...))
		}
		last := ""
		for _, p := range together {
			log := p.wantEnd(0)
			made = append(made, said(log)...)
			if !strings.Contains(log, fmt.Sprintf("still to come: %s, from process %d on ", filepath.Join("cmp", "tiny",
				"seed-2"), os.Getpid())) {
				t.Errorf("found no word of %s:\n%s", held, log)
			}
			last = log
		}
		if !strings.Contains(last, "valid loss") {
			t.Errorf("found no table:\n%s", last)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	log := background(t, dir, args...).wantEnd(0)
	made = append(made, said(log)...)
	slices.Sort(made)
	if !slices.Equal(made, []string{"1", "2", "3", "4"}) && !slices.Equal(made, []string{"2", "3", "4"}) {
		t.Errorf("made the runs %q, want each once; the first may have been made by the one that was killed", made)
	}
	if n := strings.Count(log, "done before"); n != runs-1 || strings.Contains(log, "still to come") {
		t.Errorf("the last found %d runs done, want %d:\n%s", n, runs-1, log)
	}
	left, err := filepath.Glob(filepath.Join(dir, "cmp", "*", "*", ".claim-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// TestKilledScore kills a process that answers lines, again and again, and starts it again. In the end there is one
// result for each line, in order.
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
		text, _ := os.ReadFile(out) // it may not be there yet
		return strings.Count(string(text), "\n")
	}
	args := []string{"score", "in.jsonl", "--model", "run", "-o", "out.jsonl", "--json"}
	for range 3 {
		before := results()
		p := background(t, dir, args...)
		p.waitFor("some more lines", func() bool { return results() > before })
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.ended
	}
	before := results()
	if before == lines {
		t.Fatal("all lines are done, want some left: give it more")
	}
	want := fmt.Sprintf(`{"before":%d,"lines":%d,"failed":0}`, before, lines)
	if log := background(t, dir, args...).wantEnd(0); strings.TrimSpace(log) != want {
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
