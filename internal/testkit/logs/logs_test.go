package logs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/logs"
)

// TestGenerate checks that a log depends on its seed alone, has no faults if none are asked for, and otherwise has all
// kinds of faults, marked as the comments on the kinds describe.
func TestGenerate(t *testing.T) {
	for _, kind := range logs.Kinds {
		a, b := logs.Generate(kind, 1, 4000, 0.1), logs.Generate(kind, 1, 4000, 0.1)
		other := logs.Generate(kind, 2, 4000, 0.1)
		if !slices.Equal(a, b) || slices.Equal(a, other) {
			t.Errorf("%s: the log does not depend on its seed alone", kind)
		}
		for _, l := range logs.Generate(kind, 1, 500, 0) {
			if l.Fault != "" || l.Event != 0 || l.Text == "" || strings.Contains(l.Text, "%!") {
				t.Fatalf("%s: found %+v in a log without faults", kind, l)
			}
		}
		lines, events := map[string]int{}, map[string]map[int]bool{}
		for _, l := range a {
			if (l.Fault == "") != (l.Event == 0) {
				t.Fatalf("%s: found %+v, want a fault with an event", kind, l)
			}
			if l.Fault != "" {
				if events[l.Fault] == nil {
					events[l.Fault] = map[int]bool{}
				}
				lines[l.Fault]++
				events[l.Fault][l.Event] = true
			}
		}
		each := map[string]int{logs.Word: 1, logs.Combination: 1, logs.Missing: 1, logs.Order: 2, logs.Burst: 6}
		for _, fault := range logs.Faults {
			if n := len(events[fault]); n < 3 || lines[fault] != each[fault]*n {
				t.Errorf("%s: found %d %s faults of %d lines, want some, of %d lines each", kind, n, fault,
					lines[fault], each[fault])
			}
		}
	}
}
