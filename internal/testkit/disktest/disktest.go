// Package disktest checks what a test has written to disk.
package disktest

import (
	"os"
	"slices"
	"testing"
)

// WantFiles checks that a folder holds files of the given names, which must be in byte order.
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
