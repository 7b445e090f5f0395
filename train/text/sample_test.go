package text

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/train"
)

func TestFirstWords(t *testing.T) {
	for text, want := range map[string]string{
		"ing of the whale and more of it":            "of the whale",
		"\x85е\nСемья Болконских жила в Лысых Горах": "Семья Болконских жила",
		"\n\n  Call me\nIshmael":                     "Call me",
		"0123456789":                                 "0123456789",
		strings.Repeat("道可道非常道", 9):                  strings.Repeat("道可道非常道", 4),
		"\x00\x01\xff\xfe":                           "",
		"--- *** ---\nwords":                         "words",
		"":                                           "",
		"a " + strings.Repeat("x", 60) + " b":        strings.Repeat("x", 24),
	} {
		if got := firstWords([]byte(text)); got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
}

// TestSamplesOfAnyAlphabet checks that a run with the chars tokenizer on a text without T, h, e or a space draws its
// samples, with a prompt in its alphabet. If the configured prompt is not in the alphabet, the run also adds a note.
func TestSamplesOfAnyAlphabet(t *testing.T) {
	for name, text := range map[string]string{
		"russian": strings.Repeat("Все счастливые семьи похожи друг на друга, ", 50),
		"chinese": strings.Repeat("道可道，非常道；名可名，非常名。", 100),
		"digits":  strings.Repeat("31415926535897932384626433", 80),
	} {
		for _, prompt := range []string{"", "The "} {
			c := small(t)
			c.Tokenizer, c.Train.SamplePrompt = "chars", prompt
			c.Data = []string{filepath.Join(t.TempDir(), "text.txt")}
			if err := os.WriteFile(c.Data[0], []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			var notes []string
			samples := 0
			res, err := Run(context.Background(), c, train.Events{
				Note: func(text string) { notes = append(notes, text) },
				Sample: func(_ int, sample string) {
					if samples++; !utf8.ValidString(sample) || !strings.Contains(text, firstWords([]byte("x " +
						sample))[:1]) {
						t.Errorf("%s: sample %q", name, sample)
					}
				},
			})
			if err != nil || samples != 2 {
				t.Errorf("%s, prompt %q: %d samples, %v, want 2", name, prompt, samples, err)
			}
			if res.Prompt == "" || !strings.Contains(text, res.Prompt) {
				t.Errorf("%s: prompt %q is not of the text", name, res.Prompt)
			}
			if said := strings.Contains(strings.Join(notes, "\n"),
				`train.sample_prompt: found "The "`); said != (prompt != "") {
				t.Errorf("%s, prompt %q: notes %q", name, prompt, notes)
			}
		}
	}
}

// TestSampleNeverEndsARun checks that a sample that cannot be drawn gives a note, and that the run continues to its
// end.
func TestSampleNeverEndsARun(t *testing.T) {
	c := small(t)
	c.Train.SampleEvery, c.Train.EvalEvery, c.Train.SaveEvery = 3, 100, 100
	r := newRun(t, c)
	const name = "backbone.layers.1.mlp.fc1.weight"
	var kept []float32
	weight := func(visit func(p *nn.Param)) {
		r.work.Model.Params("", func(n string, p *nn.Param) {
			if n == name {
				visit(p)
			}
		})
	}
	var notes []string
	res, err := r.run(context.Background(), train.Events{
		Step: func(p train.Progress) {
			if p.Step == 3 { // ruined only for the sample
				weight(func(p *nn.Param) { kept = make([]float32, p.Len()); p.CopyTo(kept) })
				poison(r.work.Model, name)
			}
		},
		Note: func(text string) {
			notes = append(notes, text)
			weight(func(p *nn.Param) { p.CopyFrom(kept) })
		},
	})
	if err != nil || res.Step != c.Train.Steps {
		t.Errorf("%+v, %v, want a run of %d steps", res, err, c.Train.Steps)
	}
	if len(notes) == 0 || !strings.HasPrefix(notes[0], "step 3: no sample text: ") {
		t.Errorf("notes %q", notes)
	}
}
