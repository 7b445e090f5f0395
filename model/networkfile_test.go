package model

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFindNetwork checks that a network is found in its own folder and in the folders of a run, the best first. A
// folder without a network is not an error.
func TestFindNetwork(t *testing.T) {
	save := func(dir string, seed uint64) *Network {
		m := newNetwork(t, networkConfig("h3"))
		m.Init(seed)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := m.Save(dir); err != nil {
			t.Fatal(err)
		}
		return m
	}
	run := t.TempDir()
	if m, err := FindNetwork(run); m != nil || err != nil {
		t.Errorf("an empty folder: found %v, %v", m, err)
	}
	in := Input{Lengths: []int{2}, Values: []float32{1, 2, 3, 4}}
	for i, sub := range []string{LastDir, BestDir, ""} { // each takes precedence over those before
		want := save(filepath.Join(run, sub), uint64(10+i)).Predict(in)
		m, err := FindNetwork(run)
		if err != nil || m == nil {
			t.Fatalf("with %q: found %v, %v", sub, m, err)
		}
		if got := m.Predict(in); got[0] != want[0] {
			t.Errorf("with %q: another network is found", sub)
		}
	}
	if _, err := FindNetwork(filepath.Join(run, NetworkFile)); err == nil {
		t.Error("a file is taken for a folder")
	}
}
