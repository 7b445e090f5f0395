package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPushAndPull: what lies in one folder is copied to a bucket and from there to another folder, once.
func TestPushAndPull(t *testing.T) {
	from, to, url := t.TempDir(), filepath.Join(t.TempDir(), "new"), "file://"+t.TempDir()
	if err := os.MkdirAll(filepath.Join(from, "a", "b"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "a", "b", "c-1"), []byte("state"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"push", from, url}, 1}, {[]string{"push", from, url}, 0},
		{[]string{"pull", to, url}, 1}, {[]string{"pull", to, url}, 0},
	} {
		if n, err := run(t.Context(), c.args); err != nil || n != c.want {
			t.Errorf("%v: %d, %v, want %d", c.args, n, err, c.want)
		}
	}
	if data, err := os.ReadFile(filepath.Join(to, "a", "b", "c-1")); err != nil || string(data) != "state" {
		t.Errorf("found %q, %v", data, err)
	}
	for _, args := range [][]string{nil, {"copy", from, url}, {"push", from + "x", url}, {"push", from, "x://y"}} {
		if _, err := run(t.Context(), args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
