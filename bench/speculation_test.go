package bench

import (
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
)

// TestDraftsOfAHead: a model with a head for multi-token prediction writes with its guesses, most of which are made
// right, and is offered where a preset may have such a head.
func TestDraftsOfAHead(t *testing.T) {
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.NumHeads, c.Layers = 16, 64, 2, "gated-deltanet,gated-attention"
	m, err := initialized(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Pack(engine.Int8); err != nil {
		t.Fatal(err)
	}
	run, err := speculationTrial(t.Context(), m, "mtp")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range run.runs {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	row := run.fields([]Timing{{CPU: 1}, {CPU: 1}})
	accepted, _ := row.Number("accepted")
	if per, _ := row.Number("per_call"); accepted < 0.6 || accepted > 0.95 || per < 2 {
		t.Errorf("%v: want guesses of which most are right", row)
	}
	for preset, want := range map[string]int{"qwen3.5-0.8b": 12, "mamba-130m": 8} {
		if cases, err := Cases("speculation", []string{preset}, "", 32); err != nil || len(cases) != want {
			t.Errorf("%s: %d cases, want %d (%v)", preset, len(cases), want, err)
		}
	}
}
