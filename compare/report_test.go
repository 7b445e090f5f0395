package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/text"
)

func pointer(x float64) *float64 { return &x }

// byHand returns a comparison of four models. One diverged in one of two runs, one in both, and one was not run.
func byHand() (c *Comparison, about Text, runs []Result) {
	c = &Comparison{Options: Options{Time: 90 * time.Second, Clock: "cpu", Params: 1000, Seeds: 2},
		Params: []int{1000, 1001, 1002, 1003}}
	for _, name := range []string{"slow", "fast", "broken", "later"} {
		e := Entrant{Name: name}
		e.Config.Model.DModel = len(name)
		c.Models = append(c.Models, e)
	}
	runs = []Result{
		{Model: "slow", Seed: 1, Steps: 10, Tokens: 1000, Seconds: 4, TrainLoss: pointer(2), ValidLoss: pointer(3)},
		{Model: "slow", Seed: 2, Steps: 21, Tokens: 3001, Seconds: 16, TrainLoss: pointer(1), ValidLoss: pointer(4)},
		{Model: "fast", Seed: 1, Steps: 7, Tokens: 700, Seconds: 2, ValidLoss: pointer(2.5)},
		{Model: "fast", Seed: 2, Steps: 3, Tokens: 300, Seconds: 8, TrainLoss: pointer(9), Diverged: "step 3"},
		{Model: "broken", Seed: 1, Steps: 1, Tokens: 100, Seconds: 0.25},
		{Model: "broken", Seed: 2, Steps: 1, Tokens: 100, Seconds: 0.25, Diverged: "step 1", ValidLoss: pointer(0.1)},
	}
	about = Text{Name: "a.txt", Tokenizer: "chars", TrainTokens: 5000, ValidTokens: 600, BytesPerToken: 2,
		Baseline: data.Baseline{Bigram: 2.75, Unigram: 3.25}}
	return c, about, runs
}

// TestReportByHand checks the report of results made by hand: the means over seeds, the spread (the standard deviation
// of the sample), the tokens per second over all runs, and the order by validation loss.
func TestReportByHand(t *testing.T) {
	c, about, runs := byHand()
	r := c.Report(about, runs)
	if r.Seconds != 90 || r.Clock != "cpu" || r.Params != 1000 || r.Seeds != 2 {
		t.Errorf("found %+v", r)
	}
	if len(r.Models) != 3 {
		t.Fatalf("found %d rows, want those of the models that were run", len(r.Models))
	}
	for i, want := range []Row{
		{Model: "fast", Params: 1001, DModel: 4, Steps: 5, Tokens: 500, TokensPerS: 100, Seconds: 5,
			ValidLoss: pointer(2.5), BitsPerByte: pointer(1.25 / math.Ln2), Diverged: 1},
		{Model: "slow", Params: 1000, DModel: 4, Steps: 15, Tokens: 2000, TokensPerS: 200.05, Seconds: 10,
			TrainLoss: pointer(1.5), ValidLoss: pointer(3.5), Spread: pointer(math.Sqrt(0.5)),
			BitsPerByte: pointer(1.75 / math.Ln2)},
		{Model: "broken", Params: 1002, DModel: 6, Steps: 1, Tokens: 100, TokensPerS: 400, Seconds: 0.25,
			Diverged: 2},
	} {
		got := r.Models[i]
		if len(got.Runs) != 2 {
			t.Errorf("%s: found %d runs, want 2", got.Model, len(got.Runs))
		}
		got.Runs = nil
		show := func(r Row) string {
			text := fmt.Sprint(r.Model, r.Params, r.DModel, r.Steps, r.Tokens, r.TokensPerS, r.Seconds, r.Diverged)
			for _, v := range []*float64{r.TrainLoss, r.ValidLoss, r.Spread, r.BitsPerByte} {
				if v == nil {
					text += " none"
				} else {
					text += fmt.Sprintf(" %.12g", *v)
				}
			}
			return text
		}
		if show(got) != show(want) {
			t.Errorf("row %d: found %s, want %s", i, show(got), show(want))
		}
	}
}

// TestPrintedReport checks the table and the caption, as text and as Markdown.
func TestPrintedReport(t *testing.T) {
	c, about, runs := byHand()
	r := c.Report(about, runs)
	r.Threads = 3
	const caption = "a.txt (chars tokenizer, 5.0K tokens for training, 600 for validation); 1m30s of CPU time for " +
		"training, threads: 3, seeds: 2. Losses are nats per token; the differences are to the losses of counting.\n"
	const markdown = "| model | parameters | steps | tokens | tokens/s | train loss | valid loss | bits/byte | " +
		"to bigram | to unigram | time |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n" +
		"| `fast` | 1001 | 5 | 500 | 100 | - | 2.500, 1 of 2 diverged | 1.803 | -0.250 | -0.750 | 5.0s |\n" +
		"| `slow` | 1000 | 15 | 2.0K | 200 | 1.500 | 3.500 ± 0.707 | 2.525 | +0.750 | +0.250 | 10s |\n" +
		"| `broken` | 1002 | 1 | 100 | 400 | - | diverged | - | - | - | 250ms |\n" +
		"| (bigram counts) |  |  |  |  |  | 2.750 | 1.984 | +0.000 | -0.500 |  |\n" +
		"| (unigram counts) |  |  |  |  |  | 3.250 | 2.344 | +0.500 | +0.000 |  |\n\n" + caption
	var out strings.Builder
	if err := r.PrintMarkdown(&out); err != nil || out.String() != markdown {
		t.Errorf("found %s, %v, want %s", out.String(), err, markdown)
	}
	out.Reset()
	if err := r.Print(&out); err != nil || !strings.HasSuffix(out.String(), "\n\n"+caption) {
		t.Errorf("found %s, %v, want it to end with %s", out.String(), err, caption)
	}
	var fields []string
	for _, line := range strings.Split(strings.TrimSuffix(out.String(), "\n\n"+caption), "\n") {
		fields = append(fields, strings.Join(strings.Fields(line), " "))
	}
	var want []string
	for i, line := range strings.Split(strings.TrimSuffix(markdown, "\n\n"+caption), "\n") {
		if i != 1 {
			want = append(want, strings.Join(strings.Fields(strings.NewReplacer("|", "", "`", "").Replace(line)), " "))
		}
	}
	if !slices.Equal(fields, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(fields, "\n"), strings.Join(want, "\n"))
	}
	r.Clock = "wall"
	out.Reset()
	if r.Print(&out); !strings.Contains(out.String(), "1m30s of wall time for") {
		t.Errorf("found %s, want wall time", out.String())
	}
	closed, w := io.Pipe()
	closed.Close()
	if r.Print(w) == nil || r.PrintMarkdown(w) == nil {
		t.Error("found no error of a closed pipe")
	}
}

// TestOptionsReachEveryModel checks that all runs have the text, precision, clock and time of the comparison.
func TestOptionsReachEveryModel(t *testing.T) {
	var want Options
	valid := filepath.Join(t.TempDir(), "valid.txt")
	if err := os.WriteFile(valid, []byte("the lazy dog"), 0o666); err != nil {
		t.Fatal(err)
	}
	c := contest(t, func(o *Options) {
		o.Valid, o.ValidFraction, o.TextField = []string{valid}, 0.25, "body"
		o.Tokenizer, o.Cache, o.CacheLimit = "chars", t.TempDir(), "3GB"
		o.Precision, o.Memory, o.Time, o.Clock = "bf16", "ignore", time.Minute, "cpu"
		want = *o
	}, "h3*2", "attention*2")
	if c.Options.Params != c.Params[0] || c.Params[0] == 0 {
		t.Errorf("found %d parameters as the aim, want the %d of the first model", c.Options.Params, c.Params[0])
	}
	for _, e := range c.Models {
		g := e.Config
		got := []any{g.Data, g.Valid, g.ValidFraction, g.TextField, g.Tokenizer, g.Cache, g.CacheLimit, g.Precision,
			g.Memory, g.Train.Time, g.Train.Clock, g.Train.EvalEvery, g.Train.SampleEvery}
		if expected := []any{want.Data, want.Valid, 0.25, "body", "chars", want.Cache, "3GB", "bf16", "ignore",
			time.Minute, "cpu", never, 0}; !reflect.DeepEqual(got, expected) {
			t.Errorf("%s: found %v, want %v", e.Name, got, expected)
		}
	}
	if o := DefaultOptions(text.Config{}); o.Time != 2*time.Minute || o.Seeds != 1 || o.Clock != "wall" {
		t.Errorf("found the defaults %+v", o)
	}
}

// TestRunsAreCounted checks that all models are trained with one seed before the next, that the events give the number
// of the run, and that models whose names differ only in characters that folders cannot have get different folders.
func TestRunsAreCounted(t *testing.T) {
	c := contest(t, func(o *Options) { o.Seeds, o.Seed = 2, 5 }, "h3,h3", "h3, h3", "h3 , h3")
	var found []string
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	ev := Events{Run: func(name string, seed uint64, number, runs int) train.Events {
		found = append(found, fmt.Sprintf("%s seed %d: %d of %d", name, seed, number, runs))
		if number == runs {
			cancel(stop)
		}
		return train.Events{}
	}}
	if _, _, err := c.Run(ctx, ev); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	want := []string{"h3,h3 seed 5: 1 of 6", "h3, h3 seed 5: 2 of 6", "h3 , h3 seed 5: 3 of 6", "h3,h3 seed 6: 4 of 6",
		"h3, h3 seed 6: 5 of 6", "h3 , h3 seed 6: 6 of 6"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	for _, folder := range []string{"h3_h3", "h3_h3-2", "h3_h3-3"} {
		if _, err := os.Stat(filepath.Join(c.Options.Out, folder, "seed-5", resultFile)); err != nil {
			t.Error(err)
		}
	}
	// The folder may be moved, and the memory check may change.
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(c.Options.Out, moved); err != nil {
		t.Fatal(err)
	}
	c.Options.Out, c.Options.Seeds = moved, 1
	for i := range c.Models {
		c.Models[i].Config.Memory = "ignore"
	}
	before := 0
	runs, _, err := c.Run(t.Context(), Events{Finished: func(_ Result, done bool) {
		if done {
			before++
		}
	}})
	if err != nil || len(runs) != 3 || before != 3 {
		t.Errorf("found %d runs, %d of them done before, %v, want 3", len(runs), before, err)
	}
}

// TestTrainedModelsAreNotEntrants checks that the error for the folder of a trained model says what to do with it, and
// that YAML files are recognized by either extension.
func TestTrainedModelsAreNotEntrants(t *testing.T) {
	c := contest(t, nil, "h3*2", "attention*2")
	cfg := c.Models[0].Config
	cfg.Out, cfg.Train.Time, cfg.Train.Steps = filepath.Join(t.TempDir(), "before"), 0, 1
	if _, err := text.Run(t.Context(), cfg, train.Events{}); err != nil {
		t.Fatal(err)
	}
	_, err := Entrants([]string{cfg.Out, "tiny", "h3"})
	if err == nil || !strings.Contains(err.Error(), "found trained models") || !strings.Contains(err.Error(), cfg.Out) {
		t.Errorf("found the error %v, want one of trained models", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yml", "c.conf"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("preset: tiny\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	all, err := Entrants([]string{in("a.yaml"), in("b.yml"), in("c.conf")})
	if err != nil || len(all) != 3 || all[0].Name != "a" || all[1].Name != "b" || all[2].Name != "c" {
		t.Errorf("found %v, %v, want a, b and c", all, err)
	}
	for arg, want := range map[string]string{
		in("none.yml"): "none.yml", in("none.yaml"): "none.yaml", // missing files
		in("none"): "no such model, want", dir: "no such model, want", "[": "no preset matches",
	} {
		_, err := Entrants([]string{arg, "tiny"})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "at least 2") ||
			strings.Contains(err.Error(), "no such model") != strings.Contains(want, "no such model") {
			t.Errorf("%s: found the error %v, want %q alone", arg, err, want)
		}
	}
}

// TestSizeOfATrainedModel checks that the size of a trained model may differ from the others by a twentieth.
func TestSizeOfATrainedModel(t *testing.T) {
	c := contest(t, nil, "h3*2", "attention*2")
	cfg := c.Models[0].Config
	cfg.Out, cfg.Train.Time, cfg.Train.Steps = filepath.Join(t.TempDir(), "before"), 0, 1
	if _, err := text.Run(t.Context(), cfg, train.Events{}); err != nil {
		t.Fatal(err)
	}
	all, err := Entrants([]string{"init:" + cfg.Out, "h3*2"})
	if err != nil {
		t.Fatal(err)
	}
	n := c.Params[0]
	least, most := n*9/10, n*11/10 // narrowed below to those from which n is off by at most a twentieth
	for n-least > least/20 {
		least++
	}
	for most-n > most/20 {
		most--
	}
	for params, fits := range map[int]bool{
		0: true, n: true, least: true, least - 1: false, most: true, most + 1: false,
	} {
		o := c.Options
		o.Params = params
		if _, err := New(all[:1], o); (err == nil) != fits {
			t.Errorf("%d parameters, want %d: found the error %v", n, params, err)
		}
	}
}

// TestCheck checks that Check alone finds the problems that can be known before any text is read, each of them once.
func TestCheck(t *testing.T) {
	c := contest(t, nil, "h3*2", "attention*2")
	for want, change := range map[string]func(*Options){
		`"train.clock=cpu", want --clock`: func(o *Options) { o.Set = []string{"train.clock=cpu"} },
		`"optim.lr", want KEY=VALUE`:      func(o *Options) { o.Set = []string{"optim.lr"} },
		`"lr=1", want KEY=VALUE`:          func(o *Options) { o.Set = []string{"lr=1"} },
		"missing.txt":                     func(o *Options) { o.Data = []string{"missing.txt"} },
	} {
		o := c.Options
		change(&o)
		err := o.Check(c.Models)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "unknown option") {
			t.Errorf("found the error %v, want %s alone", err, want)
		}
	}
	o := c.Options
	o.Set = []string{"optim.lr=11"}
	if err := o.Check(c.Models); err == nil || !strings.Contains(err.Error(), "h3*2: optim.lr: found 11") {
		t.Errorf("found the error %v, want one of the first model", err)
	}
	if err := c.Options.Check(c.Models); err != nil {
		t.Error(err)
	}
}
