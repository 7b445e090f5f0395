package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestEveryCommandHasAScript checks that a script runs each command in groups.
func TestEveryCommandHasAScript(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("found no scripts (%v)", err)
	}
	run := regexp.MustCompile(`(?m)^(?:(?:! )?exec|status \d+) hippo ([a-z]+)`)
	found := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range run.FindAllSubmatch(text, -1) {
			found[string(match[1])] = true
		}
	}
	for _, g := range groups() {
		for _, cmd := range g.commands {
			if !found[cmd.Name()] {
				t.Errorf("hippo %s: found no script that runs it in testdata/script", cmd.Name())
			}
		}
	}
}
