package compare

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/text"
)

// contest prepares a comparison of small models that train for one update each, in a folder of its own.
func contest(t *testing.T, change func(*Options), layers ...string) *Comparison {
	t.Helper()
	base, err := text.Preset("tiny")
	if err != nil {
		t.Fatal(err)
	}
	base.Model.DModel, base.Model.NLayer, base.Model.DState, base.Model.NumHeads = 16, 2, 8, 2
	base.Model.AttnIdx = []int{1}
	base.Train.BatchSize, base.Train.SeqLen, base.Train.Accumulation = 2, 32, 1
	base.Train.SaveEvery, base.Train.LogEvery = 2, 1
	base.Optim.Warmup = 2
	text := filepath.Join(t.TempDir(), "text.txt")
	sentence := "the quick brown fox jumps over the lazy dog; "
	if err := os.WriteFile(text, []byte(strings.Repeat(sentence, 60)), 0o666); err != nil {
		t.Fatal(err)
	}
	base.Data, base.Cache = []string{text}, "none"
	var models []Entrant
	for _, entry := range layers {
		c := base
		c.Model.Layers, c.Model.AttnIdx, c.Model.NLayer = entry, nil, 0
		models = append(models, Entrant{entry, c})
	}
	opt := DefaultOptions(base)
	opt.Time, opt.Out = time.Nanosecond, t.TempDir()
	if change != nil {
		change(&opt)
	}
	c, err := New(models, opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCompare checks that every model is trained once for each seed, has losses, and is ranked by them in the table.
// Each result is saved with the losses of the n-gram counts.
func TestCompare(t *testing.T) {
	c := contest(t, func(o *Options) { o.Seeds = 2 }, "h3*2", "h3,attention", "attention*2")
	text, err := c.Text(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	runs, _, err := c.Run(context.Background(), Events{})
	if err != nil || len(runs) != 6 {
		t.Fatalf("%d runs, %v, want 6", len(runs), err)
	}
	kept, err := filepath.Glob(filepath.Join(c.Options.Out, "*", "seed-*", resultFile))
	if err != nil || len(kept) != 6 {
		t.Fatalf("found the results %q, %v, want 6", kept, err)
	}
	for _, path := range kept {
		var s Saved
		if err := disk.ReadJSON(path, &s); err != nil || s.Baseline == nil || *s.Baseline != text.Baseline {
			t.Errorf("%s: found the losses of counting %+v, %v, want %+v", path, s.Baseline, err, text.Baseline)
		}
	}
	rows := c.Report(text, runs).Models
	if len(rows) != 3 || !slices.IsSortedFunc(rows, func(a, b Row) int {
		return int(math.Copysign(1, *a.ValidLoss-*b.ValidLoss))
	}) {
		t.Fatalf("%+v, want 3 rows by their loss", rows)
	}
	for _, r := range rows {
		a, b := *r.Runs[0].ValidLoss, *r.Runs[1].ValidLoss
		if r.Runs[0].TrainLoss == nil || r.TrainLoss == nil {
			t.Errorf("%s: found no training loss", r.Model)
		}
		if r.Steps != 1 || r.Tokens != 64 || math.Abs(*r.ValidLoss-(a+b)/2) > 1e-12 ||
			math.Abs(*r.Spread-math.Abs(a-b)/math.Sqrt2) > 1e-9 {
			t.Errorf("%+v of losses %g and %g", r, a, b)
		}
		if a == b || r.Runs[0].Seed == r.Runs[1].Seed {
			t.Errorf("%s: both seeds give %g", r.Model, a)
		}
		if bits := *r.ValidLoss / math.Ln2; math.Abs(*r.BitsPerByte-bits) > 1e-9 { // a token is a byte
			t.Errorf("%g bits per byte, want %g", *r.BitsPerByte, bits)
		}
	}
}

// TestBitsOfLongTokens checks that bits per byte refer to the bytes of the text. Each token here is two bytes.
func TestBitsOfLongTokens(t *testing.T) {
	c := contest(t, nil, "h3*2", "attention*2")
	for i := range c.Models {
		c.Models[i].Config.Tokenizer = "chars"
	}
	if err := os.WriteFile(c.Models[0].Config.Data[0], []byte(strings.Repeat("äöüßéèñø", 400)), 0o666); err != nil {
		t.Fatal(err)
	}
	text, err := c.Text(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nats := 3.0
	if bits := text.BitsPerByte(&nats); text.BytesPerToken != 2 || math.Abs(*bits-3/math.Ln2/2) > 1e-12 {
		t.Errorf("%g bytes a token, %g bits per byte of %g nats per token, want 2 and half of %g", text.BytesPerToken,
			*bits, nats, 3/math.Ln2)
	}
	if (&Text{}).BitsPerByte(&nats) != nil || text.BitsPerByte(nil) != nil {
		t.Error("found bits of nothing")
	}
	// Each of eight letters follows one of the others.
	if b := text.Baseline; math.Abs(b.Unigram-math.Log(8)) > 0.02 || b.Bigram > 0.2 || b.Bigram <= 0 {
		t.Errorf("counting gives %+v, want ln 8 and nearly nothing", b)
	}
}

// TestCompareGoesOn checks that finished runs are not repeated, and that an interrupted run resumes from its
// checkpoint.
func TestCompareGoesOn(t *testing.T) {
	c := contest(t, func(o *Options) { o.Time = time.Hour }, "h3*2", "attention*2")
	c.Models[0].Config.Train.Time = time.Nanosecond // the first is done at once, the second is far from done
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := []string{}
	ev := Events{Run: func(name string, _ uint64, _, _ int) train.Events {
		started = append(started, name)
		return train.Events{Step: func(p train.Progress) {
			if name == "attention*2" && p.Step == 3 {
				cancel()
			}
		}}
	}}
	runs, _, err := c.Run(ctx, ev)
	if !errors.Is(err, context.Canceled) || len(runs) != 1 || len(started) != 2 {
		t.Fatalf("%d runs, started %q, %v; want one done and the second interrupted", len(runs), started, err)
	}
	if _, err := os.Stat(filepath.Join(c.Options.Out, "attention_2", "seed-1", model.LastDir)); err != nil {
		t.Fatal(err)
	}
	resumed := 0
	ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	ev.Run = func(name string, _ uint64, _, _ int) train.Events {
		return train.Events{Start: func(s train.Start) { resumed = s.Resumed; cancel() }}
	}
	before := []string{}
	ev.Finished = func(r Result, done bool) {
		if done {
			before = append(before, r.Model)
		}
	}
	_, _, err = c.Run(ctx, ev)
	if !errors.Is(err, context.Canceled) || resumed != 3 || !slices.Equal(before, []string{"h3*2"}) {
		t.Errorf("%v; resumed at step %d, done before: %q; want step 3 and h3*2", err, resumed, before)
	}
	c.Models[1].Config.Optim.LR *= 2
	_, _, err = c.Run(context.Background(), Events{})
	if err == nil || !strings.Contains(err.Error(), "optim.lr: 0.004 -> 0.008") {
		t.Errorf("other settings of the interrupted run: %v", err)
	}
	c.Models[0].Config.Optim.LR *= 2
	_, _, err = c.Run(context.Background(), Events{})
	if err == nil || !strings.Contains(err.Error(), "optim.lr: 0.004 -> 0.008") {
		t.Errorf("other settings in the same folder: %v", err)
	}
}

// TestCompareDiverges checks that a run that diverges has no losses, says so, and is not repeated.
func TestCompareDiverges(t *testing.T) {
	c := contest(t, func(o *Options) {
		o.Time, o.Set = time.Hour, []string{"optim.lr=10", "optim.weight_decay=100", "optim.clip=0", "optim.warmup=0"}
	}, "h3*2", "attention*2")
	c.Models = c.Models[:1]
	for range 2 {
		runs, _, err := c.Run(context.Background(), Events{})
		if err != nil || len(runs) != 1 || runs[0].ValidLoss != nil || !strings.Contains(runs[0].Diverged, "became") {
			t.Fatalf("%+v, %v, want a run that diverged", runs, err)
		}
		rows := c.Report(Text{BytesPerToken: 1}, runs).Models
		if rows[0].Diverged != 1 || rows[0].ValidLoss != nil || rows[0].BitsPerByte != nil {
			t.Errorf("%+v, want a row without a loss", rows[0])
		}
	}
}

// TestEntrants checks the models that arguments name, and the errors for wrong arguments.
func TestEntrants(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte("preset: small\noptim: {lr: 1e-3}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	models, err := Entrants([]string{"h3", "h3-tiny", "s4?-tiny", "h3*2,attention", "mamba*3", file})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range models {
		names = append(names, m.Name)
	}
	if want := []string{"h3-tiny", "s4d-tiny", "h3*2,attention", "mamba*3", "mine"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if last := models[len(models)-1].Config; last.Optim.LR != 1e-3 || last.Model.DModel != 256 {
		t.Errorf("the file's settings: %+v", last)
	}
	models, err = Entrants([]string{"*-tiny"})
	if err != nil || len(models) != len(model.MixerNames()) {
		t.Errorf("*-tiny: %d models, %v, want one for each mixer", len(models), err)
	}
	for arg, want := range map[string]string{
		"mmaba": "mmaba: no such model, want a preset, a mixer, a list of layers or a YAML file; " +
			"did you mean mamba?",
		"zz*":                        "zz*: no preset matches, want one of attention-tiny, ",
		"h3,nope":                    `h3,nope: model.nope: found mixer "nope"`,
		"bigbird(bidirectional=yes)": "bidirectional",
		"s4d(bidirectional=true)":    "which looks ahead, want a causal mixer in a language model",
		"none.yaml":                  "none.yaml: ",
		"tiny":                       "found one model, want at least 2",
	} {
		if _, err := Entrants([]string{"tiny", arg}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", arg, err, want)
		}
	}
}

// TestCompareOptions checks that all invalid options are reported.
func TestCompareOptions(t *testing.T) {
	models, err := Entrants([]string{"tiny", "h3"})
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Options){
		"data: found -":                                func(o *Options) { o.Data = []string{"-"} },
		`set: found "lr", want KEY=VALUE`:              func(o *Options) { o.Set = []string{"lr"} },
		`set: found "model.d_model=3", want KEY`:       func(o *Options) { o.Set = []string{"model.d_model=3"} },
		`set: found "train.time=3s", want --time`:      func(o *Options) { o.Set = []string{"train.time=3s"} },
		"h3-tiny: optim.lr: found 11, want a number":   func(o *Options) { o.Set = []string{"optim.lr=11"} },
		"tiny: optim.lrr: unknown option":              func(o *Options) { o.Set = []string{"optim.lrr=11"} },
		"tiny: found no width with which it has about": func(o *Options) { o.Params = 7 },
	} {
		o := DefaultOptions(models[0].Config)
		change(&o)
		if _, err := New(models, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// TestNothingIsKept checks that a comparison without Out leaves no folder.
func TestNothingIsKept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("TMP", os.Getenv("TMPDIR")) // Windows
	c := contest(t, func(o *Options) { o.Out = "" }, "h3*2", "attention*2")
	runs, _, err := c.Run(context.Background(), Events{})
	if err != nil || len(runs) != 2 {
		t.Fatalf("%d runs, %v, want 2", len(runs), err)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestCompareGoingOn checks that a model that continues from a trained one starts with its weights, so that after one
// update it is ahead of the same shape from scratch. A trained model of another size or with another tokenizer is
// refused.
func TestCompareGoingOn(t *testing.T) {
	c := contest(t, nil, "h3*2", "attention*2")
	cfg := c.Models[0].Config
	cfg.Out, cfg.Train.Time, cfg.Train.Steps = filepath.Join(t.TempDir(), "before"), 0, 40
	if _, err := text.Run(context.Background(), cfg, train.Events{}); err != nil {
		t.Fatal(err)
	}
	all, err := Entrants([]string{"init:" + cfg.Out, "h3*2"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		loop := &all[i].Config.Train
		loop.BatchSize, loop.SeqLen, all[i].Config.Optim.Warmup = 2, 32, 2
	}
	all[1].Config.Model = c.Models[0].Config.Model
	again, err := New(all, c.Options)
	if err != nil {
		t.Fatal(err)
	}
	runs, _, err := again.Run(context.Background(), Events{})
	if err != nil || len(runs) != 2 || runs[0].Steps != 1 {
		t.Fatalf("%+v, %v", runs, err)
	}
	if on, scratch := *runs[0].ValidLoss, *runs[1].ValidLoss; on > 0.8*scratch {
		t.Errorf("a loss of %g going on, %g from scratch", on, scratch)
	}
	for want, change := range map[string]func(o *Options){
		"whose number its weights settle": func(o *Options) { o.Params = 10 * c.Params[0] },
		"want bytes, with which":          func(o *Options) { o.Tokenizer = "chars" },
	} {
		o := c.Options
		change(&o)
		if _, err := New(all[:1], o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Entrants([]string{"init:" + t.TempDir(), "h3"}); err == nil {
		t.Error("a folder without a model: no error")
	}
}

// TestTestText checks that finished models are scored on the test text per byte, per word and per token of GPT-2, and
// that a later call of the same comparison reads these scores. The same folder without the test text is refused.
func TestTestText(t *testing.T) {
	test := filepath.Join(t.TempDir(), "test.txt")
	sentences := strings.Repeat("the lazy fox jumps over a quick dog; ", 40)
	if err := os.WriteFile(test, []byte(sentences), 0o666); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	begin := func(tests ...string) *Comparison {
		return contest(t, func(o *Options) { o.Test, o.Out, o.Seeds = tests, out, 2 }, "h3", "attention")
	}
	c := begin(test)
	for range 2 {
		runs, _, err := c.Run(t.Context(), Events{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			// The space at the end is a token, and the first token is not predicted.
			const bytes, words, tokens = 37*40 - 1, 8 * 40, 9 * 40
			nats := r.Test.Loss * bytes
			for name, pair := range map[string][2]float64{
				"bits per byte":  {r.Test.BitsByte, r.Test.Loss / math.Ln2},
				"by word":        {r.Test.Word, math.Exp(nats / words)},
				"by GPT-2 token": {r.Test.GPT2, math.Exp(nats / tokens)},
			} {
				if math.Abs(pair[0]/pair[1]-1) > 1e-9 {
					t.Errorf("%s, seed %d, %s: found %v, want %v", r.Model, r.Seed, name, pair[0], pair[1])
				}
			}
			if r.Test.Loss < *r.ValidLoss/2 || r.Test.Loss == *r.ValidLoss {
				t.Errorf("found the test loss %v beside the validation loss %v", r.Test.Loss, *r.ValidLoss)
			}
		}
		about, err := c.Text(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		report := c.Report(about, runs)
		a := report.Models[0]
		if mean := (a.Runs[0].Test.Word + a.Runs[1].Test.Word) / 2; math.Abs(a.Test.Word/mean-1) > 1e-12 {
			t.Errorf("found the mean %v by word, want %v", a.Test.Word, mean)
		}
		var text strings.Builder
		if err := report.PrintMarkdown(&text); err != nil ||
			!strings.Contains(text.String(), "| test: bits/byte | by word | by GPT-2 token | time |") {
			t.Errorf("found %s, %v", text.String(), err)
		}
	}
	other := begin()
	other.Models[0].Config.Data, other.Models[1].Config.Data = c.Models[0].Config.Data, c.Models[1].Config.Data
	if _, _, err := other.Run(t.Context(), Events{}); err == nil || !strings.Contains(err.Error(), "the same --test") {
		t.Errorf("without the test text: %v", err)
	}
}

// TestEqualParameters checks that Equal adjusts inner widths where steps of the width are too coarse, and that a shape
// without an MLP and without a fitting width is refused.
func TestEqualParameters(t *testing.T) {
	base, err := text.Preset("tiny")
	if err != nil {
		t.Fatal(err)
	}
	var models []Entrant
	for _, layers := range []string{"h3*2", "attention*2", "mamba*2"} {
		e := Entrant{layers, base}
		e.Config.Model.Layers, e.Config.Model.AttnIdx, e.Config.Model.NLayer = layers, nil, 0
		models = append(models, e)
	}
	o := DefaultOptions(base)
	o.Equal, o.Params = 1, 300_000
	equal, err := New(models, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range equal.Params {
		if math.Abs(float64(n)/300_000-1) > .01 {
			t.Errorf("%s: found %d parameters, want 300,000 within 1 %%", equal.Models[i].Name, n)
		}
	}
	for i := range models {
		models[i].Config.Model.MLP = "none"
	}
	if _, err := New(models, o); err == nil || !strings.Contains(err.Error(), "want 300000 within 1 %") {
		t.Errorf("without MLPs: %v", err)
	}
}
