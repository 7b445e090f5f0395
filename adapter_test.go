package hippo_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo"
)

// adapterOfWhale trains an adapter of the whale on another text and returns the folder of its run.
func adapterOfWhale(t *testing.T, seed uint64) string {
	t.Helper()
	text := filepath.Join(t.TempDir(), "other.txt")
	other := strings.Repeat("the sailor swims. the whale waits in the sea. the sea waits. ", 60)
	if err := os.WriteFile(text, []byte(other), 0o666); err != nil {
		t.Fatal(err)
	}
	cfg, err := hippo.Preset("tiny")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Data, cfg.Out, cfg.Cache = []string{text}, filepath.Join(t.TempDir(), "run"), "none"
	cfg.Train.Steps, cfg.Train.BatchSize, cfg.Train.SeqLen, cfg.Train.SampleEvery = 10, 2, 64, 0
	cfg.LoRA.Rank, cfg.Seed, cfg.Optim.Warmup = 4, seed, 1
	if err := cfg.StartFrom(whale, whale); err != nil {
		t.Fatal(err)
	}
	if _, err := hippo.Train(context.Background(), cfg, hippo.TrainEvents{}); err != nil {
		t.Fatal(err)
	}
	return cfg.Out
}

// TestAdapters checks that an adapter has the same result whether it is loaded alone, with its model, or attached to a
// loaded model. A merged model can be saved and has about the same result. Several adapters compute at once on one
// model, which stays unchanged.
func TestAdapters(t *testing.T) {
	one, two := adapterOfWhale(t, 1), adapterOfWhale(t, 2)
	embed := func(m *hippo.Model, err error) []float32 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		v, err := m.Embed(t.Context(), "the sailor waits")
		if err != nil {
			t.Fatal(err)
		}
		return v[0]
	}
	base := load(t)
	plain := embed(base, nil)
	want := embed(hippo.Load(one))
	for name, got := range map[string][]float32{
		"with its model":     embed(hippo.Load(whale, hippo.Adapter(one))),
		"over a model":       embed(base.WithAdapter(one)),
		"its best":           embed(hippo.Load(filepath.Join(one, "best"))),
		"over packed floats": embed(hippo.Load(whale, hippo.Precision("float32"), hippo.Adapter(one))),
	} {
		if !slices.Equal(got, want) {
			t.Errorf("%s: another vector than alone", name)
		}
	}
	if slices.Equal(want, plain) || slices.Equal(want, embed(hippo.Load(two))) {
		t.Error("adapters change nothing")
	}
	a, err := base.WithAdapter(one)
	if err != nil {
		t.Fatal(err)
	}
	b, err := base.WithAdapter(two)
	if err != nil {
		t.Fatal(err)
	}
	vectors := [][]float32{plain, want, embed(b, nil)}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			v, err := []*hippo.Model{base, a, b}[i%3].Embed(t.Context(), "the sailor waits")
			if err != nil || !slices.Equal(v[0], vectors[i%3]) {
				t.Errorf("model %d computes another vector beside others: %v", i%3, err)
			}
		})
	}
	all.Wait()

	m, err := hippo.Load(one)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "whole")
	if err := m.Save(dir); err == nil {
		t.Error("a model with an adapter was saved")
	}
	if err := m.Merge(); err != nil {
		t.Fatal(err)
	}
	if err := m.Save(dir); err != nil || m.AdapterDir() != "" {
		t.Fatal(err, m.AdapterDir())
	}
	for i, v := range embed(hippo.Load(dir)) {
		if d := v - want[i]; d > 1e-5 || d < -1e-5 {
			t.Errorf("element %d of the merged model is %v, want %v", i, v, want[i])
		}
	}
	if _, err := hippo.Load(dir, hippo.Adapter(one)); !errors.Is(err, hippo.ErrBase) {
		t.Errorf("an adapter of another model: %v", err)
	}
	for _, options := range [][]hippo.LoadOption{
		{hippo.Adapter("")}, {hippo.Adapter(one), hippo.Adapter(two)}, {hippo.Adapter(whale)},
	} {
		if _, err := hippo.Load(whale, options...); err == nil {
			t.Errorf("%d options that do not fit were taken", len(options))
		}
	}
}
