package text

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// TestRunName checks that a run is named after the model that it starts from, without the tag and the folders inside a
// run.
func TestRunName(t *testing.T) {
	for name, want := range map[string]string{"a/b": "b", "a/b/": "b", "runs/x/best": "x", "runs/x/last/": "x",
		"a/b:8b": "b", "./..": "tiny", "best": "tiny", ":x": "tiny", "runs/x/./best": "x", "b.gguf": "b.gguf"} {
		c := tiny()
		c.Base = Base{Name: name, Path: "somewhere"}
		if got := c.runName(); got != want {
			t.Errorf("%s: found %s, want %s", name, got, want)
		}
		if c.Base.Path = ""; c.runName() != "tiny" {
			t.Errorf("%s: without a base the run is called %s", name, c.runName())
		}
	}
}

// TestCards checks that only lines in the front matter or the table of a card are read.
func TestCards(t *testing.T) {
	for text, want := range map[string]string{
		"---\nlicense: a\n---\ndata: b\n":                     "license=a",
		"text\n---\nlicense: a\n---\n":                        "",
		"---\nlicense: a\n---\nx\n---\nlicense: b\n---\n":     "license=a",
		"---\ndatasets:\n  - one\nlicense: a\n- two\n---\n":   "datasets=one license=a license=two",
		"- one\n| data | x | y |\n| data |\n|data|z|\ndata|u": "data=x | y data=z",
		"---\nbase_model:  \"m\" \nother: n\n- data: x\n":     "base_model=m",
	} {
		var got []string
		for _, said := range parseCard(text) {
			got = append(got, said.Key+"="+said.Text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
}

// TestEstimateTexts checks an estimate as text.
func TestEstimateTexts(t *testing.T) {
	e := Estimate{Params: 7, Trained: 7, Embedding: 3, Weights: 100 << 20, Gradients: 28 << 20, Moments: 200 << 20,
		Activations: 64 << 20, Program: 8 << 20, Total: 400 << 20, TokensPerSec: 1234.6, StepSeconds: 0.5,
		RunSeconds: 90,
		Tokens:     5000, Measured: true}
	want := `parameters   7, of them 3 in the embedding
memory       400 MiB: weights and gradients 128 MiB, AdamW 200 MiB, activations 64 MiB, program 8 MiB
speed        1235 tokens/s, 0.5 s a step (measured on this machine)
run          5.0K tokens in 1m30s, without evaluations
`
	if got := e.String(); got != want {
		t.Errorf("found\n%s\nwant\n%s", got, want)
	}
	e.Total, e.Moments, e.Trained, e.Measured, e.Misfit, e.RunSeconds = 1<<30, 3<<29, 5, false, "x", 31*24*3600
	want = `parameters   7, of them 3 in the embedding; 5 are trained, 2 frozen
memory       1 GiB: weights and gradients 0.125 GiB, AdamW 1.5 GiB, activations 0.0625 GiB, program 0.00781 GiB
speed        1235 tokens/s, 0.5 s a step (extrapolated from updates of a smaller model on this machine)
run          5.0K tokens in 31.0 days, without evaluations
             settings for a larger machine: --train.steps or --train.time 8h shortens it
does not fit x
`
	if got := e.String(); got != want {
		t.Errorf("found\n%s\nwant\n%s", got, want)
	}
	for days, want := range map[float64]string{1.9: "1d22h", 2: "2.0 days", 999.94: "999.9 days", 1000: "3 years",
		36525: "100 years"} {
		if got := longTime(days * 24 * 3600); got != want {
			t.Errorf("%g days are %s, want %s", days, got, want)
		}
	}
	e.RunSeconds = monthSeconds
	if strings.Contains(e.String(), "larger machine") {
		t.Error("a month is too long")
	}
}

// TestFitsIn checks that the error for a run that does not fit names a split of an update that fits, computed from the
// memory per sequence, or settings that need less.
func TestFitsIn(t *testing.T) {
	params := train.ParamCount{All: 1000, Trained: 1000, Values: 4000}
	for _, c := range []struct {
		batch, shards, activations, room int // room in bytes besides the parameters with one shard
		want                             string
	}{
		{8, 1, 80_000, 80_000, ""},
		{8, 1, 80_000, 79_999, "train.batch_size=4 with train.shards=2 fits"},
		{8, 1, 80_000, 44_000, "train.batch_size=4 with train.shards=2 fits"}, // with one more sum of gradients
		{8, 1, 80_000, 43_999, "train.batch_size=2 with train.shards=4 fits"},
		{8, 1, 80_000, 22_000, "train.batch_size=1 with train.shards=8 fits"},
		{8, 1, 80_000, 21_999, "a smaller train.seq_len, model.d_model or fewer layers need less"},
		{8, 2, 80_000, 70_000, "train.batch_size=4 with train.shards=4 fits"},
		{8, 1, 80_000, 9_999, "a smaller train.seq_len, model.d_model or fewer layers need less"},
		{8, 1, 80_000, 0, "a smaller model.d_model or fewer layers need less"},
	} {
		cfg := tiny()
		cfg.Train.BatchSize, cfg.Train.Shards = c.batch, c.shards
		free := status.Memory{Bytes: uint64(params.Bytes(1) + c.room), Of: "of it"}
		err := cfg.fitsIn(free, params, c.activations)
		if err == nil && c.want == "" {
			continue
		}
		e, ok := err.(*train.MemoryError)
		if !ok || e.Advice != c.want || e.Need != params.Bytes(c.shards)+c.activations || e.Weights !=
			params.Bytes(c.shards) || e.Activations != c.activations {
			t.Errorf("%+v: found %+v, %v", c, e, err)
			continue
		}
		batch, shards := cfg.smaller(int(free.Bytes), params, c.activations)
		if (batch > 0) != strings.Contains(c.want, "fits") || batch > 0 && (params.Bytes(shards)+
			c.activations/c.batch*batch > int(free.Bytes) || batch*shards != c.batch*c.shards) {
			t.Errorf("%+v: cut into %d of %d", c, shards, batch)
		}
	}
}

// TestSettingsAtTheirBounds checks the largest and smallest valid settings, and the errors for others.
func TestSettingsAtTheirBounds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *Config)
		want   string // part of the problems; "" for none
	}{
		"no vocabulary":  {func(c *Config) { c.Model.VocabSize = 0 }, ""},
		"no validation":  {func(c *Config) { c.ValidFraction = 0 }, "valid_fraction: found 0, want"},
		"all validation": {func(c *Config) { c.ValidFraction = 1 }, "valid_fraction: found 1, want"},
		"other text":     {func(c *Config) { c.ValidFraction, c.Valid = 0, []string{"x"} }, ""},
		"a limit":        {func(c *Config) { c.CacheLimit = "20GB" }, ""},
		"no limit":       {func(c *Config) { c.CacheLimit = "much" }, "cache_limit: "},
		"binary":         {func(c *Config) { c.Binary = true }, ""},
		"binary words": {func(c *Config) { c.Binary, c.Tokenizer = true, "gpt2" },
			"binary: found true with the tokenizer gpt2"},
		"memory":          {func(c *Config) { c.Memory = "" }, ""},
		"other memory":    {func(c *Config) { c.Memory = "some" }, `memory: found "some"`},
		"epochs":          {func(c *Config) { c.Train.Epochs = maxEpochs }, ""},
		"negative epochs": {func(c *Config) { c.Train.Epochs = -1 }, "train.epochs: found -1, want a number from 0"},
		"many epochs": {func(c *Config) { c.Train.Epochs = maxEpochs * 1.01 },
			"train.epochs: found 1.01e+06, want"},
		"no epochs": {func(c *Config) { c.Train.Epochs = math.NaN() }, "train.epochs: found NaN"},
		"ones": {func(c *Config) {
			c.Train = Loop{Steps: 1, BatchSize: 1, SeqLen: 1, Shards: 1, EvalEvery: 1, EvalTokens: 1, SaveEvery: 1,
				LogEvery: 1, SampleTokens: 1}
		}, ""},
		"zeros": {func(c *Config) { c.Train = Loop{} }, "train.steps: train.batch_size: train.seq_len: train.shards: " +
			"train.eval_every: train.eval_tokens: train.save_every: train.log_every: train.sample_tokens: "},
		"largest shard": {func(c *Config) { c.Train.BatchSize, c.Train.SeqLen = 1<<4, 1<<20 }, ""},
		"larger shard": {func(c *Config) { c.Train.BatchSize, c.Train.SeqLen = 1<<4, 1<<20+1 },
			"train.batch_size, train.seq_len: found 16, 1048577, want at most 16777216 tokens"},
		"largest update": {func(c *Config) { c.Train.BatchSize, c.Train.SeqLen, c.Train.Shards = 1<<4, 1<<20, 4 }, ""},
		"larger update": {func(c *Config) { c.Train.BatchSize, c.Train.SeqLen, c.Train.Shards = 1<<4, 1<<20, 5 },
			"train.shards: found 5 of 16777216 tokens, want at most 67108864"},
		"chunks":          {func(c *Config) { c.Train.Chunk = 7 }, ""},
		"negative chunks": {func(c *Config) { c.Train.Chunk = -1 }, "train.chunk: found -1, want tokens"},
		"recompute":       {func(c *Config) { c.Train.Recompute = true }, ""},
		"recompute chunks": {func(c *Config) { c.Train.Recompute, c.Train.Chunk = true, 1 },
			"train.recompute: found it together with train.chunk"},
		"recompute states": {func(c *Config) { c.Train.Recompute, c.Train.CarryState = true, true },
			"train.recompute: found it together with train.chunk"},
		"gradients":       {func(c *Config) { c.Train.Gradients = gradientsStopped }, ""},
		"other gradients": {func(c *Config) { c.Train.Gradients = "x" }, `train.gradients: found "x"`},
		"negative time":   {func(c *Config) { c.Train.Time = -1 }, "train.time: found -1ns"},
		"no clock":        {func(c *Config) { c.Train.Clock = "" }, ""},
		"earlier name":    {func(c *Config) { c.Train.Shards, c.Train.Accumulation = 0, 3 }, ""},
	} {
		cfg := tiny()
		var err error
		if cfg.Model, err = model.Preset("tiny"); err != nil {
			t.Fatal(err)
		}
		c.change(&cfg)
		all, _ := cfg.Validate().(config.Problems)
		if (len(all) == 0) != (c.want == "") {
			t.Errorf("%s: found %q, want %q", name, all, c.want)
		}
		wants := strings.SplitAfter(c.want, ": ")
		if name != "zeros" {
			wants = []string{c.want, ""}
		}
		for i, want := range wants[:len(wants)-1] {
			if c.want != "" && (len(all) <= i || !strings.HasPrefix(all[i], want)) {
				t.Errorf("%s: found the problems %q, want %q", name, all, want)
			}
		}
		if name == "earlier name" && (cfg.Train.Shards != 3 || cfg.Train.Accumulation != 0) {
			t.Errorf("the earlier name of shards gives %d", cfg.Train.Shards)
		}
	}
}

// TestLoopSizes checks the tokens held at once, the time of chunks relative to whole sequences, and the updates of
// epochs and of a trial.
func TestLoopSizes(t *testing.T) {
	for _, c := range []struct {
		loop Loop
		held int
		time float64
	}{
		{Loop{SeqLen: 96}, 96, 1}, {Loop{SeqLen: 96, Chunk: 80}, 80, 1.6}, {Loop{SeqLen: 96, Chunk: 32}, 32, 4},
		{Loop{SeqLen: 96, Chunk: 96}, 96, 1},
		{Loop{SeqLen: 96, Chunk: 200}, 96, 1}, {Loop{SeqLen: 96, Chunk: 32, Gradients: gradientsStopped}, 32, 3},
		{Loop{SeqLen: 96, Recompute: true}, 96, 1}, {Loop{SeqLen: 96, Chunk: 1, Gradients: gradientsExact}, 1,
			128},
	} {
		if got := c.loop.chunkTimes(); c.loop.held() != c.held || math.Abs(got-c.time) > 1e-12 {
			t.Errorf("%+v: found %d tokens and %v times, want %d and %v", c.loop, c.loop.held(), got, c.held, c.time)
		}
	}
	for _, c := range []struct {
		epochs float64
		tokens int
		want   int
	}{{0, 1000, 77}, {1, 1000, 9}, {1, 960, 8}, {0.5, 960, 4}, {0.001, 960, 1}, {2, 961, 17}} {
		l := Loop{Steps: 77, Epochs: c.epochs, BatchSize: 3, Shards: 2, SeqLen: 20}
		if l.countSteps(c.tokens); l.Steps != c.want || l.sequences() != 6 || l.tokensPerStep() != 120 {
			t.Errorf("%g epochs of %d tokens are %d updates, want %d", c.epochs, c.tokens, l.Steps, c.want)
		}
	}
	old := Loop{Accumulation: 1}
	if old.settle(); old.Shards != 1 {
		t.Errorf("the earlier name of one shard gives %d", old.Shards)
	}
	c := tiny()
	c.Train.Epochs, c.Train.Time = 3, time.Hour
	c.Smoke()
	if l := c.Train; l.Steps != 2 || l.Epochs != 0 || l.Time != 0 || l.LogEvery != 1 || l.EvalEvery != 2 ||
		l.SaveEvery != 2 || l.SampleEvery != 2 || l.SampleTokens != 32 || l.EvalTokens != 1024 || c.Optim.Warmup != 1 {
		t.Errorf("a trial has %+v, warmup %d", l, c.Optim.Warmup)
	}
	c.Train.SampleTokens, c.Train.EvalTokens, c.Optim.Warmup = 5, 7, 0
	if c.Smoke(); c.Train.SampleTokens != 5 || c.Train.EvalTokens != 7 || c.Optim.Warmup != 0 {
		t.Errorf("a trial has more than was asked for: %+v", c.Train)
	}
	for name, want := range map[string][4]int{"hyenadna-tiny-1k": {256, 1024, 10000, 100},
		"hyenadna-small-32k": {32, 32768, 10000, 100}, "hyenadna-large-1m": {1, 1000000, 10000, 100},
		"h3-125m": {256, 2048, 800000, 8000}, "s4-wikitext-103": {8, 8192, 800000, 1000}} {
		c, err := Preset(name)
		if got := [4]int{c.Train.Shards, c.Train.SeqLen, c.Train.Steps, c.Optim.Warmup}; got != want || err != nil ||
			c.Train.BatchSize != 1 || c.Optim.SSMLR != 0 || c.Train.EvalEvery != 1000 || c.Train.LogEvery != 1 {
			t.Errorf("%s: found %v, %v, want %v", name, got, err, want)
		}
	}
}

// TestReplyEnds checks where a reply ends if white space follows, and the end that is appended to a last reply without
// one.
func TestReplyEnds(t *testing.T) {
	c := &chats{ends: []string{"<e>", "<x>"}, end: "<e>"}
	for reply, want := range map[string]string{"a<e>": "a<e>| true", "a<e>\n ": "a<e>|\n  true",
		"a<e>b":    "a<e>b| false",
		"a<e>b<e>": "a<e>b<e>| true", "a<x>": "a<x>| true", "<e>": "<e>| true", "": "| false",
		"a<e><x>": "a<e><x>| true"} {
		at, ended := c.endOf(reply)
		if got := fmt.Sprint(reply[:at], "|", reply[at:], " ", ended); got != want {
			t.Errorf("%q: found %q, want %q", reply, got, want)
		}
	}
}

// TestWordsOfPrompts checks that lines are cut after three words or 24 characters, and that a start that may be the end
// of a word is left out if there is anything else.
func TestWordsOfPrompts(t *testing.T) {
	for line, want := range map[string]string{"a b c d": "a b c", "a b c": "a b c", " - a b": "a b",
		"a " + strings.Repeat("b", 30): "a",
		"aaaaaaaaaa bbbbbbbbbb ccccc":  "aaaaaaaaaa bbbbbbbbbb", "aaaaaaaaaa bbbbbbbbbb cc": "aaaaaaaaaa bbbbbbbbbb cc",
		" " + strings.Repeat("a", 25): strings.Repeat("a", 24), "...": "", "…9 x": "9 x"} {
		if got := cutWords(line); got != want {
			t.Errorf("%q: found %q, want %q", line, got, want)
		}
	}
	for text, want := range map[string]string{"part\nwhole": "whole", "part": "part",
		strings.Repeat("é", 24) + "\nwhole": strings.Repeat("é", 24),
		strings.Repeat("é", 23) + "\nwhole": "whole", "\xffpart\nwhole": "whole", "\npart\nwhole": "part",
		"x ...\nwhole": "whole", "xx yy\xffzz": "yy", "xx yy\ufffdzz": "yy\ufffdzz"} {
		if got := firstWords([]byte(text)); got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
	if got := within([]int{0, 3, 5, 8, 9}, 3, 8); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("the borders within a chunk are %v", got)
	}
}
