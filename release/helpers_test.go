package release

import (
	"runtime"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// small returns a model of the given mixers.
func small(t testing.TB, layers string) *model.Model {
	t.Helper()
	cfg := model.DefaultConfig()
	cfg.DModel, cfg.VocabSize, cfg.Layers, cfg.NumHeads, cfg.Rotary = 16, 11, layers, 2, 4
	cfg.DState, cfg.HeadDim, cfg.DInner = 6, 2, 24
	m, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	return m
}

// every lists all mixers of the registry, so that a new one is tested too.
func every() string { return strings.Join(model.MixerNames(), ",") }

// columns returns the positions [lo, hi) of each of b rows.
func columns[T any](x []T, b, lo, hi int) []T {
	var out []T
	for i, row := 0, len(x)/b; i < b; i++ {
		out = append(out, x[i*row:][lo:hi]...)
	}
	return out
}

// newStates returns b states before the first position.
func newStates(m *model.Model, b int) []*model.State {
	states := make([]*model.State, b)
	for i := range states {
		states[i] = m.NewState()
	}
	return states
}

// rowsOf returns the next n positions of each sequence.
func rowsOf(n int, states []*model.State) *model.Rows {
	r := &model.Rows{}
	for _, s := range states {
		r.Add(n, s)
	}
	return r
}

// weights returns the weights of a file.
func weights(t *testing.T, f *checkpoint.File) model.Weights {
	t.Helper()
	w, err := Weights(f)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// allocated returns the number of bytes that f allocates, in all goroutines.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// parameter returns the parameter with a name.
func parameter(t *testing.T, m *model.Model, name string) (found *tensor.Tensor) {
	t.Helper()
	m.Params("", func(n string, p *nn.Param) {
		if n == name {
			found = p.Tensor
		}
	})
	if found == nil {
		t.Fatalf("found no parameter %s", name)
	}
	return found
}
