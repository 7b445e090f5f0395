package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/evidence"
)

// TestPagesHold checks that the pages agree with recipes and results, that no table has figures from elsewhere, and
// that this program accepts every call of hippo on every page.
func TestPagesHold(t *testing.T) {
	book, err := evidence.Open(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	report, err := book.Check(callParser())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Faults) > 0 || report.Calls < 250 {
		t.Errorf("%d calls:\n%s", report.Calls, strings.Join(report.Faults, "\n"))
	}
}

// TestCallParser checks that a call is refused for a wrong command, flag, value or number of arguments, and that a call
// does not affect the next one.
func TestCallParser(t *testing.T) {
	parse := callParser()
	for _, c := range []struct{ call, want string }{
		{"task run induction --model h3 --seed 2", ""},
		{"train --train.steps 3 --set-no-such 1", "set-no-such"},
		{"task run", "found no TASK"},
		{"run org/name", ""},
		{"run", "found no"},
		{"cache clean --all --older 7d", "older"},
		{"cache clean --older 7d", ""},
		{"evidence check --rerun many", "many"},
		{"no-such", "unknown command"},
		{"task no-such", "unknown command"},
		{"verify --help", ""},
	} {
		err := parse(strings.Fields(c.call))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("hippo %s: found %v, want %q", c.call, err, c.want)
		}
	}
}
