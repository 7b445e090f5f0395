package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// frozenNames returns the parameters that a model does not train.
func frozenNames(m *Model) (names []string) {
	m.Params("", func(name string, p *nn.Param) {
		if !p.NeedsGrad() {
			names = append(names, name)
		}
	})
	return names
}

// twelve returns a model of twelve layers, so that 1 is a number and also a prefix of others.
func twelve(t *testing.T) *Model {
	t.Helper()
	cfg := DefaultConfig()
	cfg.DModel, cfg.NLayer, cfg.Mixer, cfg.VocabSize, cfg.DState = 8, 12, "h3", 11, 4
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestFreezePatterns checks which names patterns match, by layers and kinds.
func TestFreezePatterns(t *testing.T) {
	for pattern, holds := range map[string]func(name string) bool{
		"backbone.embeddings.*":     func(n string) bool { return strings.HasPrefix(n, "backbone.embeddings.") },
		"backbone.layers.1":         func(n string) bool { return strings.HasPrefix(n, "backbone.layers.1.") },
		"backbone.layers.1.*":       func(n string) bool { return strings.HasPrefix(n, "backbone.layers.1.") },
		"*.norm?":                   func(n string) bool { return strings.Contains(n, ".norm") },
		"*.norm1.bias":              func(n string) bool { return strings.HasSuffix(n, ".norm1.bias") },
		"backbone.layers.1-10.*":    func(n string) bool { return inLayers(n, 1, 10) },
		"*.9-11.mlp":                func(n string) bool { return inLayers(n, 9, 11) && strings.Contains(n, ".mlp.") },
		"*":                         func(string) bool { return true },
		"backbone.layers.0-3.mlp.*": func(n string) bool { return inLayers(n, 0, 3) && strings.Contains(n, ".mlp.") },
	} {
		m := twelve(t)
		var want []string
		m.Params("", func(name string, p *nn.Param) {
			if holds(name) {
				want = append(want, name)
			}
		})
		err := m.Freeze([]string{pattern})
		if len(want) == 0 {
			t.Fatalf("%s: the test has no name for it", pattern)
		}
		if err != nil || !slices.Equal(frozenNames(m), want) {
			t.Errorf("%s froze %q, want %q: %v", pattern, frozenNames(m), want, err)
		}
	}
}

func inLayers(name string, first, last int) bool {
	for i := first; i <= last; i++ {
		if strings.HasPrefix(name, fmt.Sprintf("backbone.layers.%d.", i)) {
			return true
		}
	}
	return false
}

// TestFreezeErrors checks that the error lists all patterns without a match, with similar names, and that nothing is
// frozen then.
func TestFreezeErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		"backbone.layer.3.*":       `"backbone.layer.3.*" matches no parameter, want names such as backbone.layers.3`,
		"backbone.layers.12":       "backbone.layers.1",
		"mixer":                    "backbone.layers.0.mixer",
		"backbone.layers.5-2.*":    "found the range 5-2",
		"backbone.layers.0-99999":  "found the range 0-99999",
		"backbone..layers":         "found nothing before, after or between dots",
		"":                         "found nothing before, after or between dots",
		"backbone.(layers|[a-z]*)": "matches no parameter",
	} {
		m := twelve(t)
		err := m.Freeze([]string{"backbone.embeddings", pattern})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "freeze: ") {
			t.Errorf("%q: error %v, want one with %q", pattern, err, want)
		}
		if names := frozenNames(m); len(names) > 0 {
			t.Errorf("%q: %q are frozen after an error", pattern, names)
		}
	}
	if err := twelve(t).Freeze([]string{"nose", "tail"}); !strings.Contains(fmt.Sprint(err), "2 problems") {
		t.Errorf("error %v, want both problems", err)
	}
}

// gradientsOf returns the gradients of a step by the names of the trained parameters. The step continues from the
// states of carried earlier steps.
func gradientsOf(m *Model, tape *autograd.Tape, carried int) map[string][]float32 {
	var leaves []*tensor.Tensor
	var names []string
	m.Params("", func(name string, p *nn.Param) {
		if p.NeedsGrad() {
			names, leaves = append(names, name), append(leaves, p.Tensor)
		}
	})
	grads := autograd.NewGradients(tape.Backend(), leaves...)
	tape.Collect(grads)
	tape.Record(true)
	const b, l = 2, 40
	states := make([]*State, b)
	for step := range 1 + carried {
		tape.Reset()
		grads.Zero()
		ids := text(uint64(step), b*l)
		rows := &Rows{}
		for i := range states {
			if states[i] == nil && carried > 0 {
				states[i] = m.NewState()
			}
			rows.Add(l, states[i])
		}
		rows.Train(engine.RowSeeds(1, step, 0, b)...)
		tape.Backward(m.Loss(tape, m.Forward(tape, ids, rows), ids))
		for _, s := range states {
			if s != nil {
				s.Detach()
			}
		}
	}
	out := map[string][]float32{}
	for i, name := range names {
		out[name] = read(grads.Each()[i])
	}
	return out
}

// TestFrozenPartsChangeNoGradient checks that freezing other parameters does not change a bit of a parameter's
// gradient: for every mixer, for experts and shared blocks, with tied and untied heads, and in a step that continues
// from the states of earlier ones.
func TestFrozenPartsChangeNoGradient(t *testing.T) {
	models := map[string]func() *Model{"head": func() *Model { return withHead(t, "h3,attention") }}
	lists := []string{composed, mixtures}
	for _, name := range MixerNames() {
		lists = append(lists, name+","+name)
	}
	for _, layers := range lists {
		models[layers] = func() *Model { return hybrid(t, layers) }
	}
	for name, fresh := range models {
		carry := 2
		if fresh().MaxLength() > 0 {
			carry = 0
		}
		whole := [2]map[string][]float32{
			gradientsOf(fresh(), autograd.NewTape(cpu.Backend{}), 0),
			gradientsOf(fresh(), autograd.NewTape(cpu.Backend{}), carry),
		}
		for what, patterns := range frozenParts(fresh()) {
			for i, carried := range []int{0, carry} {
				m := fresh()
				if err := m.Freeze(patterns); err != nil {
					t.Fatalf("%s, %s: %v", name, what, err)
				}
				got := gradientsOf(m, autograd.NewTape(cpu.Backend{}), carried)
				if len(got) == 0 || len(got) == len(whole[i]) {
					t.Fatalf("%s, %s: %d of %d are trained", name, what, len(got), len(whole[i]))
				}
				for p, g := range got {
					if !slices.Equal(g, whole[i][p]) {
						t.Errorf("%s, %s, after %d steps: the gradient of %s is another with frozen parts", name, what,
							carried, p)
					}
				}
			}
		}
	}
}

// withHead is hybrid with an untied head.
func withHead(t *testing.T, layers string) *Model {
	t.Helper()
	cfg := hybrid(t, layers).Config
	cfg.UntiedHead = true
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	return m
}

// TestFreezeTiedWeights checks that a tied head is frozen with the embedding, and an untied one is not.
func TestFreezeTiedWeights(t *testing.T) {
	tied, untied := hybrid(t, "h3"), withHead(t, "h3")
	for _, m := range []*Model{tied, untied} {
		if err := m.Freeze([]string{"backbone.embeddings"}); err != nil {
			t.Fatal(err)
		}
	}
	if tied.Unembedding().NeedsGrad() || !untied.Unembedding().NeedsGrad() {
		t.Errorf("with the embedding frozen, the tied head is trained: %v, one of its own: %v",
			tied.Unembedding().NeedsGrad(), untied.Unembedding().NeedsGrad())
	}
	want := `"lm_head" matches no parameter`
	if err := tied.Freeze([]string{"lm_head"}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the head of tied weights: %v, want %q", err, want)
	}
	if err := untied.Freeze([]string{"lm_head"}); err != nil || untied.Unembedding().NeedsGrad() {
		t.Errorf("a head of its own: %v", err)
	}
}

// frozenParts returns lists of patterns to freeze in a model of two layers: parts of it; every second parameter, so
// that each operation has frozen and trained ones; and all but one.
func frozenParts(m *Model) map[string][]string {
	var params []string
	m.Params("", func(name string, p *nn.Param) {
		if p.NeedsGrad() {
			params = append(params, name)
		}
	})
	choices := map[string][]string{
		"below":  {"backbone.layers.0", "backbone.embedding*"},
		"above":  {"backbone.layers.1"},
		"mixers": {"*.mixer"}, "others": {"*.mlp", "*.norm*", "backbone.ln_f"},
	}
	if m.Head != nil {
		choices["head"] = []string{"lm_head"}
	}
	for i := range 2 {
		var some []string
		for k, p := range params {
			if k%2 == i {
				some = append(some, p)
			}
		}
		choices[fmt.Sprintf("half %d", i)] = some
	}
	for _, p := range params {
		if strings.HasPrefix(p, "backbone.layers.1.mixer.") {
			choices["all but "+p] = slices.DeleteFunc(slices.Clone(params), func(q string) bool { return q == p })
		}
	}
	return choices
}

// TestFrozenLayersTakeNoActivations checks that nothing below the first trained layer is stored for the backward pass.
func TestFrozenLayersTakeNoActivations(t *testing.T) {
	taken := func(patterns ...string) int {
		m := hybrid(t, "h3*8")
		if err := m.Freeze(patterns); err != nil {
			t.Fatal(err)
		}
		tape := autograd.NewTape(cpu.Backend{})
		gradientsOf(m, tape, 0)
		return tape.Bytes()
	}
	all, half := taken(), taken("backbone.embeddings", "backbone.layers.0-5")
	if half > all/2 {
		t.Errorf("with six of eight layers frozen a step takes %d bytes, want at most half of the %d of all", half, all)
	}
}
