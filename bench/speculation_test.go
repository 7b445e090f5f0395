package bench

import (
	"errors"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestDraftsOfAHead checks that a model with a head for multi-token prediction writes with the head's guesses, most of
// which are made right, and that this case is offered if a preset may have such a head.
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

// TestSpeculationOfAModel checks that a model in a folder writes its own text with n-gram drafts. Some drafts are
// right, because a model with random weights repeats itself. A model with a head writes with the head's guesses.
func TestSpeculationOfAModel(t *testing.T) {
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.NumHeads, c.Layers = 16, 256, 2, "gated-deltanet,gated-attention"
	m, err := initialized(c)
	dir := t.TempDir()
	if err = errors.Join(err, m.Save(dir), tokenizer.Bytes().Save(dir), withHead(m)); err != nil {
		t.Fatal(err)
	}
	cases, err := Cases("speculation", []string{dir}, "int8", 1)
	if err != nil || len(cases) != 1 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	ngram, err1 := cases[0].prepare(t.Context())
	mtp, err2 := ownTrial(t.Context(), m, tokenizer.Bytes())
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]trial{"n-grams": ngram, "a head": mtp} {
		for _, f := range run.runs {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}
		row := run.fields([]Timing{{CPU: 2}, {CPU: 1}})
		accepted, _ := row.Number("accepted")
		per, _ := row.Number("per_call")
		v, _ := row.Number("tokens_per_s")
		if v != ownTokens/2 || accepted > 1 || per < 1 || name == "n-grams" && per < 2 {
			t.Errorf("drafts by %s: %v", name, row)
		}
	}
	_, err = Cases("speculation", []string{dir + "/none"}, "", 1)
	if err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("no folder: %v", err)
	}
}
