// Package disktest checks what a test has written to disk.
package disktest

import (
	"os"
	"slices"
	"testing"
)

// WantFiles checks the names in a folder, which must be in the order of their bytes.
func WantFiles(t testing.TB, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("the folder has %q, want %q", names, want)
	}
}
