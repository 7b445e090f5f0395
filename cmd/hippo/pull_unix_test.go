//go:build unix

package main

import (
	"os"
	"strings"
	"testing"
)

// TestInterruptedPullGoesOn checks that Ctrl-C ends a pull with status 130, and that the pull keeps the fetched part
// and says so.
func TestInterruptedPullGoesOn(t *testing.T) {
	t.Parallel()
	s := newSlowHub(t)
	p := s.pull(t)
	p.waitFor("half of the weights", s.hasHalf)
	p.signal(os.Interrupt)
	said := p.wantEnd(130)
	if !strings.Contains(said, "interrupted: what was fetched is saved, and the same command resumes") {
		t.Errorf("it said:\n%s", said)
	}
	s.goesOn(t)
}
