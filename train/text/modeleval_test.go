package text

import (
	"math"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/engine"
)

// measured returns a ModelEval with a list of the notes that it gives.
func measured(o ModelEvalOptions) (e *ModelEval, notes *[]string) {
	o.Cache, o.TextField, o.BatchSize = data.CacheNone, data.DefaultTextField, 8
	notes = new([]string)
	return &ModelEval{
		Options:  o,
		Note:     func(text string) { *notes = append(*notes, text) },
		Progress: func() (func(done, total int), func()) { return func(int, int) {}, func() {} },
	}, notes
}

// TestModelsReadOneText checks that models with other tokenizers are measured on the same bytes as the first model,
// each with the loss that it has alone, and that the best comes first.
func TestModelsReadOneText(t *testing.T) {
	var dirs []string
	for _, tok := range []string{"bytes", "chars"} {
		c := small(t)
		c.Tokenizer, c.Train.Clock = tok, "wall"
		if tok == "chars" {
			c.Data = dirs[1:] // the text of the first model
			c.Train.Steps = 30
		}
		mustRun(t, c)
		if dirs = append(dirs, c.Out); tok == "bytes" {
			dirs = append(dirs, c.Data...)
		}
	}
	text := dirs[1]
	dirs = []string{dirs[0], dirs[2]}
	for _, specs := range [][]string{nil, {text}} {
		e, notes := measured(ModelEvalOptions{Data: specs, Baseline: specs == nil})
		reports, err := e.Run(t.Context(), dirs)
		if err != nil {
			t.Fatal(err)
		}
		a, b := reports[0], reports[1]
		if a.BitsByte > b.BitsByte || a.Text != b.Text || a.Tokenizer == b.Tokenizer {
			t.Errorf("found %+v before %+v, want the fewest bits per byte first, of two tokenizers on one text", a, b)
		}
		if math.Abs(float64(a.Bytes-b.Bytes)) > 1 { // every token but the first is predicted
			t.Errorf("measured on %d and %d bytes, want the same text", a.Bytes, b.Bytes)
		}
		if len(*notes) == 0 || !strings.Contains((*notes)[len(*notes)-1], "different tokenizers") {
			t.Errorf("notes %q, want one of different tokenizers", *notes)
		}
		alone, err := e.Run(t.Context(), dirs[:1])
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range reports {
			if r.Tokenizer == "bytes" && r.Loss != alone[0].Loss {
				t.Errorf("loss %v beside another model, %v alone", r.Loss, alone[0].Loss)
			}
			if r.Tokenizer == "bytes" && (r.Baseline != nil) != (specs == nil) {
				t.Errorf("found the baseline %v, want it where it is asked for", r.Baseline)
			}
		}
	}
}

// TestTextsThatCannotBeMeasuredOn checks that options that contradict each other are reported before a model is read.
func TestTextsThatCannotBeMeasuredOn(t *testing.T) {
	run := small(t)
	run.Train.Steps, run.Train.Clock = 1, "wall"
	mustRun(t, run)
	for want, c := range map[string]struct {
		dir string
		o   ModelEvalOptions
	}{
		"valid_fraction: found it without data": {run.Out, ModelEvalOptions{ValidFraction: 0.5}},
		"train_data: found it without baseline": {run.Out, ModelEvalOptions{TrainData: run.Data}},
		"baseline: found no text to count in":   {t.TempDir(), ModelEvalOptions{Baseline: true}},
		"train_data: found it together with valid_fraction, ": {t.TempDir(),
			ModelEvalOptions{Baseline: true, TrainData: run.Data, ValidFraction: 0.5}},
	} {
		e, _ := measured(c.o)
		e.Load = func(string) (*LoadedModel, error) {
			t.Errorf("%s: a model is read", want)
			return nil, nil
		}
		if _, err := e.Run(t.Context(), []string{c.dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestMeasuresOfLongTokens checks bits per byte and perplexity per word if tokens are longer than a byte.
func TestMeasuresOfLongTokens(t *testing.T) {
	const line = "größe über zwölf Äpfel, naïve Ærø; "
	whole := strings.Repeat(line, 40)
	c := small(t)
	c.Tokenizer, c.Train.Steps, c.Train.Clock = "chars", 1, "wall"
	if err := os.WriteFile(c.Data[0], []byte(whole), 0o666); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c)
	e, _ := measured(ModelEvalOptions{Data: c.Data})
	reports, err := e.Run(t.Context(), []string{c.Out})
	if err != nil {
		t.Fatal(err)
	}
	r := reports[0]
	// Every token but the first, g, is predicted. The rest of the first word still counts as a word.
	tokens, bytes, words := utf8.RuneCountInString(whole)-1, len(whole)-1, len(strings.Fields(whole))
	if r.Tokens != tokens || r.Bytes != int64(bytes) || r.Words != words {
		t.Errorf("found %d tokens, %d bytes, %d words, want %d, %d, %d", r.Tokens, r.Bytes, r.Words, tokens, bytes,
			words)
	}
	nats := r.Loss * float64(tokens) // nats of the whole text
	for what, c := range map[string][2]float64{
		"perplexity":          {r.Perplexity, math.Exp(r.Loss)},
		"bits per byte":       {r.BitsByte, nats / math.Ln2 / float64(bytes)},
		"perplexity per word": {r.WordPerplex, math.Exp(nats / float64(words))},
	} {
		if math.Abs(c[0]/c[1]-1) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, c[0], c[1])
		}
	}
}

// TestReads checks the fractions that attention reads, if the lower bits of a quarter of the keys are read.
func TestReads(t *testing.T) {
	c := &engine.SpAttenCounts{}
	if readsOf(c) != nil {
		t.Error("nothing has been counted, but there are reads")
	}
	c.All.Store(1000)
	c.Keys.Store(400)
	c.High.Store(400)
	c.Low.Store(100)
	c.Values.Store(50)
	var out strings.Builder
	if err := (&ModelReport{Reads: readsOf(c)}).Print(&out); err != nil {
		t.Fatal(err)
	}
	if want := "40.0 % of keys (25.0 % of their bits) and 5.0 % of values"; !strings.Contains(out.String(), want) {
		t.Errorf("found\n%swant %q in it", out.String(), want)
	}
}

// TestPerTokenOfAnother checks that the perplexity per token of another tokenizer is computed from the same total loss:
// for the model's own tokenizer it is the model's perplexity. An unknown tokenizer is an error.
func TestPerTokenOfAnother(t *testing.T) {
	c := small(t)
	c.Train.Clock = "wall"
	mustRun(t, c)
	for _, per := range []string{"bytes", "gpt2"} {
		e, _ := measured(ModelEvalOptions{Per: per})
		reports, err := e.Run(t.Context(), []string{c.Out})
		if err != nil {
			t.Fatal(err)
		}
		r := reports[0]
		if want := math.Exp(r.Loss * float64(r.Tokens) / float64(r.Per.Count)); r.Per.Tokenizer != per ||
			math.Abs(r.Per.Perplexity/want-1) > 1e-12 || (r.Per.Count == r.Tokens) != (per == "bytes") {
			t.Errorf("%s: found %+v beside %+v, want the perplexity %v", per, r.Per, r.EvalResult, want)
		}
	}
	e, _ := measured(ModelEvalOptions{Per: "words"})
	if _, err := e.Run(t.Context(), []string{c.Out}); err == nil || !strings.Contains(err.Error(), "per: ") {
		t.Errorf("another tokenizer: %v", err)
	}
}
