package model

import (
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
)

// TestFingerprint checks that the fingerprint depends on the configuration and on every weight, but not on their layout
// in memory.
func TestFingerprint(t *testing.T) {
	fresh := func(layers string) *Model {
		c := DefaultConfig()
		c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DInner = 16, 50, layers, 2, 24
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		m.Init(1)
		return m
	}
	const layers = "h3,attention"
	want := fresh(layers).Fingerprint()
	seen := map[string]string{want: "the model"}
	unlike := func(what string, m *Model) {
		t.Helper()
		got := m.Fingerprint()
		if before, there := seen[got]; there || len(strings.TrimPrefix(got, OfIntegers)) != 32 {
			t.Errorf("%s has the fingerprint %q of %s", what, got, before)
		}
		for before, of := range seen {
			if m.HasFingerprint(before) || !m.HasFingerprint(got) {
				t.Errorf("%s has the fingerprint of %s as well, or not its own", what, of)
			}
		}
		seen[got] = what
	}
	unlike("other layers", fresh("h3,h3"))
	m := fresh(layers)
	m.Params("", func(name string, p *nn.Param) {
		x := make([]float32, p.Len())
		p.CopyTo(x)
		last := &x[len(x)-1]
		*last += 1
		p.CopyFrom(x)
		unlike("another "+name, m)
		*last -= 1
		p.CopyFrom(x)
	})
	for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8} {
		m := fresh(layers)
		if err := m.Pack(p); err != nil {
			t.Fatal(err)
		}
		if m.Precision() != p {
			t.Errorf("packed as %v, told %v", p, m.Precision())
		}
		if p != engine.Float32 {
			unlike(p.String(), m)
		} else if got := m.Fingerprint(); got != want {
			t.Errorf("packed as float32 it is %q, want %q", got, want)
		}
	}
}
