package text

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// TestPrompts checks the prompts of sample texts and the length of samples.
func TestPrompts(t *testing.T) {
	chat := func(q, a string) any { return map[string]string{"prompt": q, "completion": a} }
	for _, k := range []struct {
		data         []any // nil for a text
		prompt, kind string
		want         string
		notes        int
	}{
		{nil, "abc", "bytes", "abc", 0}, {nil, "", "bytes", "quick brown fox", 0}, {nil, "the T", "chars",
			"quick brown fox", 1}, {nil, "THE", "chars",
			"quick brown fox", 1},
		{[]any{chat("first ", "aa"), chat("second ", "bb"), chat("third ", "cc")}, "", "bytes", "third ", 0},
		{[]any{chat("first ", "aa"), chat("second ", "bb"), chat("third ", "cc")}, "xy", "bytes", "xy", 0},
		{[]any{map[string]string{"text": "one"}, map[string]string{"text": "two words"},
			map[string]string{"text": "!!!!!!!!!!"}},
			"", "bytes", "!!!!!!!!", 0},
	} {
		c := swift(t, "mamba")
		c.Train.SamplePrompt, c.Tokenizer, c.Train.BatchSize, c.Train.Shards = k.prompt, k.kind, 1, 1
		if k.data != nil {
			c.Data, c.ValidFraction, c.Train.SeqLen = []string{jsonl(t, k.data...)}, 0.3, 4
		}
		w := newRun(t, c).work
		if ids, err := w.Data.Tokenizer.Encode(nil, []byte(k.want)); w.prompt.text != k.want || err != nil ||
			!slices.Equal(ids, w.prompt.ids) || len(w.Data.Notes) != k.notes {
			t.Errorf("%+v: the prompt is %q of %v, notes %q", k, w.prompt.text, w.prompt.ids, w.Data.Notes)
		}
		if k.notes > 0 && !strings.Contains(w.Data.Notes[0], "is not in the alphabet") {
			t.Errorf("the note is %q", w.Data.Notes[0])
		}
	}
	for _, k := range []struct {
		valid []any
		want  string
	}{ // the text before the first reply that has a prompt
		{[]any{chat("p ", "xx"), chat("q ", "yy")}, "p "},
		{[]any{chat("", "xyz"), chat("q ", "yy"), chat("r ", "zz")}, "q "},
		{[]any{chat("third ", "c")}, "third "},
		{[]any{chat("", "some words")}, "words"}, {[]any{chat("", "!!")}, "!!"},
		{[]any{chat(strings.Repeat("far ", 1025), "c")}, "far far far"}, // no reply is near the start
	} {
		c := swift(t, "mamba")
		c.Train.SamplePrompt, c.Valid = "", []string{jsonl(t, k.valid...)}
		if w := newRun(t, c).work; w.prompt.text != k.want {
			t.Errorf("%v: the prompt is %q, want %q", k.valid, w.prompt.text, k.want)
		}
	}
	talks := swift(t, "mamba")
	talks.Tokenizer, talks.Data = "chars", []string{jsonl(t, chat("first ", "abc"), chat("second ", "def"),
		chat("third ",
			"ghi"))}
	talks.Train.SeqLen, talks.Train.SamplePrompt, talks.ValidFraction = 4, "first", 0.4
	talk := newRun(t, talks).work
	text, err := talk.SampleText(t.Context())
	if err != nil || len(text) <= len("first") {
		t.Fatalf("%q, %v", text, err)
	}
	talk.texts = map[string][]byte{"tokenizer_config.json": fmt.Appendf(nil, `{"eos_token": %q}`, text[5:6])}
	if text, err := talk.SampleText(t.Context()); err != nil || text != "first" {
		t.Errorf("a reply of nothing is %q, %v", text, err)
	}
	talk.texts = map[string][]byte{"tokenizer_config.json": []byte("{")}
	if _, err := talk.SampleText(t.Context()); err == nil {
		t.Error("settings of chats that are none")
	}
	c := swift(t, "mamba")
	c.Model.MaxPositions, c.Tokenizer, c.Train.SamplePrompt = 14, "chars", "the "
	w := newRun(t, c).work
	for most, want := range map[int]int{1: 5, 3: 7, 10: 14, 11: 14, 1000: 14} { // the prompt has four bytes
		w.Config.Train.SampleTokens = most
		text, err := w.SampleText(t.Context())
		got, _ := w.Data.Tokenizer.Encode(nil, []byte(w.prompt.text))
		if err != nil || !strings.HasPrefix(text, "the ") || len(text) != want || len(got) != 4 || w.sampled != text {
			t.Errorf("%q, %v", text, err)
		}
		again, err := w.SampleText(t.Context())
		if err != nil || again != text {
			t.Errorf("%d tokens are %q and then %q, %v", most, text, again, err)
		}
	}
	one := c
	one.Model.MaxPositions, one.Train.SeqLen = 1, 1
	if text, err := newRun(t, one).work.SampleText(t.Context()); err != nil || len(text) != 5 {
		t.Errorf("a model of one position continues with %q, %v", text, err)
	}
	w.prompt = samplePrompt{toymodel.Text(1, 30, 20), "long"}
	for w.Config.Seed = range uint64(10) {
		w.prompt.ids = toymodel.Text(1, 30, 20)
		long, err := w.SampleText(t.Context())
		if err != nil || !strings.HasPrefix(long, "long") {
			t.Errorf("%q, %v", long, err)
		}
		w.prompt.ids = w.prompt.ids[:13]
		if cut, err := w.SampleText(t.Context()); cut != long || err != nil {
			t.Errorf("from 13 of 14 positions %q, %v, from more %q", cut, err, long)
		}
	}
	w = newRun(t, swift(t, "mamba")).work // a model without a length limit
	w.prompt, w.Config.Train.SampleTokens = samplePrompt{[]int32("the quick brown"), ""}, 20
	whole, err := w.SampleText(t.Context())
	w.prompt.ids = w.prompt.ids[:1]
	if short, failed := w.SampleText(t.Context()); short == whole || errors.Join(err, failed) != nil {
		t.Errorf("the first token alone is continued by %q, the prompt by %q: %v, %v", short, whole, err, failed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.SampleText(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestScoresOfRuns checks on which tokens a run is measured during the run, at the end, before the first update and
// when the best is measured again.
func TestScoresOfRuns(t *testing.T) {
	c := swift(t, "mamba")
	c.Train.EvalTokens = 40
	r := newRun(t, c)
	w, tape := r.work, r.loop.Tape()
	valid := w.Data.Valid
	of := func(tokens int) float64 {
		r, err := Evaluate(t.Context(), w.Model, valid.Slice(0, tokens), EvalOptions{SeqLen: 12, BatchSize: 2})
		if err != nil {
			t.Fatal(err)
		}
		return r.Loss
	}
	n := valid.Len()
	check := func(what string, s train.Score, err error, tokens int) {
		t.Helper()
		if want := of(tokens); err != nil || s.Loss != want || s.Count != tokens-1 {
			t.Errorf("%s: %+v, %v, want a loss of %v over %d", what, s, err, want, tokens-1)
		}
	}
	s, err := w.Measure(t.Context(), tape, false)
	check("on the way", s, err, 41)
	s, err = w.Measure(t.Context(), tape, true)
	check("in the end", s, err, n)
	for limit, tokens := range map[int]int{0: n, 1: 2, n - 2: n - 1, n - 1: n, n: n} {
		loss, err := w.Evaluate(t.Context(), tape, limit)
		if want := of(tokens); err != nil || loss != want {
			t.Errorf("at most %d: %v, %v, want %v", limit, loss, err, want)
		}
	}
	if loss, err := w.Try(t.Context(), tape); err != nil || loss != of(13) {
		t.Errorf("a try gives %v, %v, want %v", loss, err, of(13))
	}
	dir := filepath.Join(t.TempDir(), "best")
	old := train.Score{Loss: 7}
	if s, err := w.Remeasure(t.Context(), tape, dir, old); err != nil || !math.IsInf(s.Loss, 1) {
		t.Errorf("no checkpoint has %+v, %v", s, err)
	}
	if err := errors.Join(os.Mkdir(dir, 0o777), w.SaveModel(dir)); err != nil {
		t.Fatal(err)
	}
	s, err = w.Remeasure(t.Context(), tape, dir, old)
	check("again", s, err, n)
	for tokens, want := range map[int]bool{n - 1: true, n - 2: false} {
		w.Config.Train.EvalTokens = tokens
		s, err := w.Remeasure(t.Context(), tape, dir, old)
		if err != nil || (s.Loss == old.Loss) != want {
			t.Errorf("%d tokens: %+v, %v", tokens, s, err)
		}
	}
	w.Config.smoke, w.Config.Train.EvalTokens = true, 40
	if s, err := w.Remeasure(t.Context(), tape, dir, old); err != nil || s.Loss != old.Loss {
		t.Errorf("a trial: %+v, %v", s, err)
	}
	w.Config.Train.EvalTokens = 40
	s, err = w.Measure(t.Context(), tape, true)
	check("a trial in the end", s, err, 41)
	w.Config.smoke = false
	write(t, filepath.Join(dir, model.ConfigFile), []byte("{"))
	if _, err := w.Remeasure(t.Context(), tape, dir, old); err == nil {
		t.Error("a broken checkpoint is measured")
	}
	if w.Enough(train.Score{}) {
		t.Error("it is enough")
	}
}

// TestResultOfRun checks the events, result, card and files of a run, of an interrupted one and of a resumed one.
func TestResultOfRun(t *testing.T) {
	c := swift(t, "mamba,h3")
	c.Freeze, c.Train.Steps = []string{"backbone.layers.1"}, 4
	c.Train.Clock, c.Memory = train.WallClock, train.MemoryCheck
	var started train.Start
	var notes []string
	res, err := Run(t.Context(), c, train.Events{Start: func(s train.Start) { started = s },
		Note: func(text string) { notes = append(notes, text) }})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := train.Claim(c.Out)
	if err != nil {
		t.Fatalf("the folder is still claimed: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	r := newRun(t, func() Config { c := c; c.Out += "-x"; return c }())
	params := r.work.params
	if started.Out != c.Out || started.Params != params.All || started.Trained != params.Trained ||
		started.Vocab != 256 ||
		started.Base != "" || started.Tokenizer != "bytes" || started.TrainTokens != 2430 ||
		started.ValidTokens != 270 ||
		started.Steps != 4 || started.Resumed != 0 {
		t.Errorf("it starts with %+v", started)
	}
	if res.Out != c.Out || res.Step != 4 || res.Tokens != 4*48 || res.Interrupted || res.Chat || res.Prompt != "The " ||
		math.IsNaN(res.ValidLoss) || res.BestLoss > res.ValidLoss || res.BestStep < 1 || res.Loss < 4 ||
		res.Trained <= 0 ||
		res.Elapsed < res.Trained || len(res.Remarks) != 1 || !slices.Contains(notes, res.Remarks[0]) {
		t.Errorf("%+v, notes %q", res, notes)
	}
	card := string(contentOf(t, filepath.Join(c.Out, CardFile)))
	saved, err := train.ReadSaved(c.Out, train.LanguageKind, checkpoint.SettleDir)
	if err != nil {
		t.Fatal(err)
	}
	points := ""
	for _, p := range saved.History.Points {
		points += fmt.Sprintf("| %d | %.4f |\n", p.Step, p.Valid.Loss)
	}
	for _, want := range []string{
		"# " + c.Out + "\n\nA language model of ", " parameters trained by hippo: mamba, h3.\n\n| | |\n|---|---|\n",
		"| training | 4 steps, 192 tokens, ", "| frozen | ", " of the parameters: backbone.layers.1 |",
		"| data | ", "| tokens | 2430 for training, 270 for validation, bytes tokenizer, fingerprint ", "| seed | 1 |",
		"\nNote: " + res.Remarks[0] + ".\n", "\n## Sample\n\n```\nThe ",
		"| step | validation loss |\n|---|---|\n" + points,
		"\n## Configuration\n\n```yaml\n", "\n## Curves\n\nTraining loss (smoothed):\n\n```\n",
	} {
		if !strings.Contains(card, want) {
			t.Errorf("the card has no %q:\n%s", want, card)
		}
	}
	r.work.Config.Freeze = nil
	w := r.work
	w.Config.Base = Base{Name: "b|c", Path: "/b", Weights: "1234", Card: []Said{{"license", "x"}}}
	w.params.Trained = w.params.All
	res.BestStep, res.BestLoss, res.ValidLoss, res.Step, res.Elapsed = 4, 1, 2, 4, 3*time.Second
	res.Remarks = nil
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	for _, k := range []struct {
		best int
		want []string
	}{
		{4, []string{"| validation loss | 1.0000 nats per token (perplexity 2.72) |\n" +
			"| training | 4 steps, 192 tokens, 3.0s |\n",
			`| began with | b\|c (/b), weights 1234 |` + "\n| of that: license | x |\n| data "}},
		{3, []string{"| validation loss | 1.0000 nats per token (perplexity 2.72), at step 3: the best, " +
			"in `best/` |\n" +
			"| validation loss at the end | 2.0000, in `last/` |\n| training "}},
	} {
		res.BestStep = k.best
		card := string(r.card(res))
		for _, want := range k.want {
			if !strings.Contains(card, want) || !strings.Contains(card, ", 3 cores, ") ||
				strings.Contains(card, "frozen |") || strings.Contains(card, "Note:") {
				t.Errorf("the card has no %q:\n%s", want, card)
			}
		}
	}
	if math.IsNaN(r.result().ValidLoss) != true || !math.IsInf(r.result().BestLoss, 1) || r.result().Step != 0 {
		t.Errorf("a run that has not begun has %+v", r.result())
	}
	if _, err := Run(t.Context(), c, train.Events{}); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a second run: %v", err)
	}
	again, err := ReadRun(c.Out)
	if err != nil || again.Out != c.Out || again.Documents != documentsApart || !filepath.IsAbs(again.Data[0]) {
		t.Fatalf("%+v, %v", again, err)
	}
	again.Train.Steps = 5
	more, err := Resume(t.Context(), again, train.Events{Start: func(s train.Start) { started = s }})
	if err != nil || more.Step != 5 || started.Resumed != 4 || more.Tokens != 5*48 {
		t.Errorf("%+v, %v, from %+v", more, err, started)
	}
	again.Train.Steps = 0
	_, err = Resume(t.Context(), again, train.Events{})
	toymodel.WantError(t, err, "train.steps")
	again.Train.Steps, again.Data = 6, []string{"/gone/text"}
	_, err = Resume(t.Context(), again, train.Events{})
	toymodel.WantError(t, err, "; where the text is now, --data (or --valid) says: a run goes by its content, "+
		"not by its name")
	c = swift(t, "mamba")
	ctx, cancel := context.WithCancel(t.Context())
	res, err = Run(ctx, c, train.Events{Step: func(train.Progress) { cancel() }})
	if err != nil || !res.Interrupted || res.Step != 1 || !math.IsNaN(res.ValidLoss) {
		t.Errorf("interrupted: %+v, %v", res, err)
	}
}

// TestVerdicts checks the remarks and errors of a finished run, by its losses.
func TestVerdicts(t *testing.T) {
	r := newRun(t, swift(t, "mamba"))
	guess := r.work.Guess()
	most := guess + train.Diverging
	for best, want := range map[float64]bool{most: false, most + 0.01: true, 1: false} {
		err := r.useless(best)
		var e *UselessError
		if errors.As(err, &e) != want || want && (e.Best != best || e.Guess != guess || e.Began != 0) {
			t.Errorf("a best loss of %v: %v", best, err)
		}
	}
	r.work.Config.smoke = true
	if err := r.useless(1e9); err != nil {
		t.Errorf("a trial: %v", err)
	}
	for began, want := range map[float64]string{
		0: "the model is worse than guessing: its best validation loss is 9 nats per token, that of guessing 5; want " +
			"validation text that is like the training text",
		8: "the model is worse than guessing: its best validation loss is 9 nats per token, that of guessing 5; " +
			"the model that it began with had 8, so look whether it is the one for this text and tokenizer, " +
			"or train longer",
	} {
		if got := (&UselessError{Best: 9, Guess: 5, Began: began}).Error(); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	unigram, err := data.UnigramLoss(r.work.Data.Train, r.work.Data.Valid, 256)
	if err != nil {
		t.Fatal(err)
	}
	for best, want := range map[float64]int{unigram - 1e-9: 0, unigram: 0, unigram + 1e-9: 1} {
		all := r.remarks(&Result{BestLoss: best, ValidLoss: best, Step: 4})
		said := fmt.Sprintf("the validation loss, %.4f, is above what counting how often each token stands in the "+
			"text comes to, %.4f: ", best, unigram)
		if len(all) != want || want > 0 && !strings.HasPrefix(all[0], said) {
			t.Errorf("a best loss of %v, where counts have %v: %q", best, unigram, all)
		}
	}
	c := swift(t, "mamba")
	c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 0, 0, 0
	c.Train.Steps, c.Train.EvalEvery, c.Train.SaveEvery, c.Train.SampleEvery, c.Optim.LR = 60, 100, 100, 0, 0.05
	r = newRun(t, c)
	if _, err := r.run(t.Context(), train.Events{}); err != nil {
		t.Fatal(err)
	}
	curve := strings.TrimRight(status.Curve(r.loop.Curve(), 72, 12), "\n")
	if !strings.Contains(string(r.card(Result{})),
		"```\n"+curve+"\n```") {
		t.Error("the card has another curve")
	}
	all := r.remarks(&Result{BestLoss: 9, ValidLoss: 9})
	if len(all) != 1 || !strings.Contains(all[0], ": what it has learnt of the training text does not hold elsewhere") {
		t.Errorf("with a training loss of %v: %q", r.loop.TrainLoss(), all)
	}
	all = r.remarks(&Result{BestLoss: 4, ValidLoss: 7, BestStep: 10, Step: 60})
	if len(all) != 2 || !strings.HasPrefix(all[0], "the model overfits: its validation loss was lowest, "+
		"4.0000, at step 10") {
		t.Errorf("with a training loss of %v: %q", r.loop.TrainLoss(), all)
	}
}
