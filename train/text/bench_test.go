package text

import (
	"context"
	"testing"
)

// BenchmarkStep times one update of the default run, in tokens/s as the user sees it, and reports its allocations.
func BenchmarkStep(b *testing.B) {
	cfg, err := Preset("tiny")
	if err != nil {
		b.Fatal(err)
	}
	cfg.Cache = "none"
	d, err := cfg.OpenData(context.Background(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	w, err := New(cfg, d)
	if err != nil {
		b.Fatal(err)
	}
	tr, err := w.Begin()
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := tr.Step(); err != nil { // fills the arena
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := tr.Step(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cfg.Train.tokensPerStep()*b.N)/b.Elapsed().Seconds(), "tokens/s")
}
