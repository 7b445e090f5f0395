package main

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/bench"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/release"
)

// TestFilesAreModels checks that a file of every shape can be read and measured, and has as many parameters as its name
// says.
func TestFilesAreModels(t *testing.T) {
	millions := map[string]float64{"mamba-130m": 129, "mamba2-130m": 129, "gpt2-124m": 136, "granite-4.0-h-350m": 340,
		"falcon-h1-0.5b": 521, "lfm2-350m": 354, "qwen3.5-0.8b": 752} // gpt2: with 16,384 positions
	dir := t.TempDir()
	for name, build := range shapes {
		const kind = checkpoint.Q8_0
		f := newFile(kind, 1)
		f.dry = true
		build(f)
		if got := float64(f.numbers) / 1e6; math.Abs(got-millions[name]) > 1 {
			t.Errorf("%s: %.1f million parameters, want %v", name, got, millions[name])
		}
		small := name + "-q8_0"
		if err := write(dir, small, 16); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, small+".gguf")
		if name != "gpt2-124m" { // only for llama.cpp
			if _, _, err := release.Describe(path); err != nil {
				t.Error(err)
			}
		}
		cases, err := bench.Cases("files", []string{path}, "", 64)
		if err != nil {
			t.Fatal(err)
		}
		rows, _, err := bench.Run(context.Background(), cases[len(cases)-1:], bench.Options{Threads: 1, Rounds: 1})
		if err != nil {
			t.Fatal(err)
		}
		if x, ok := rows[0].Number("tokens_per_s"); !ok || x <= 0 || !strings.Contains(rows[0].String(), "int8") {
			t.Errorf("%s: %v", name, rows[0])
		}
		for _, phase := range []string{"cold", "restored"} { // the second continues what the first has saved
			cases, err := bench.Cases("resume", []string{phase, dir, "70", path}, "", 16)
			if err != nil {
				t.Fatal(err)
			}
			rows, _, err := bench.Run(context.Background(), cases, bench.Options{Threads: 1, Rounds: 1})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, row := range rows {
				if x, ok := row.Number("first_ms"); !ok || x <= 0 {
					t.Errorf("%s: %v", name, row)
				}
			}
		}
	}
	if err := write(dir, "falcon-h1-0.5b-q4_k_m", 16); err != nil {
		t.Fatal(err)
	}
	mixed, err := checkpoint.OpenGGUF(filepath.Join(dir, "falcon-h1-0.5b-q4_k_m.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer mixed.Close()
	kinds := map[checkpoint.DType]bool{}
	for _, name := range mixed.Names() {
		x, _ := mixed.Tensor(name)
		kinds[x.DType] = true
	}
	if !kinds[checkpoint.Q4_K] || !kinds[checkpoint.Q6_K] || kinds[checkpoint.F16] {
		t.Errorf("a mix has the types %v", kinds)
	}
	for _, name := range []string{"mamba-130m", "mamba-130m-q5_0", "llama-f32", ""} {
		if err := write(dir, name, 16); err == nil || !strings.Contains(err.Error(), "lfm2-350m") {
			t.Errorf("%q: error %v", name, err)
		}
	}
}
