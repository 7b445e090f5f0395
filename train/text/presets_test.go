package text

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/model"
)

// TestPresetSettings checks that only the tiny presets train like the default run, and that all others have their own
// settings.
func TestPresetSettings(t *testing.T) {
	for _, name := range Presets() {
		_, own := presets[name]
		if isTiny := name == "tiny" || strings.HasSuffix(name, "-tiny"); own == isTiny {
			t.Errorf("%s: settings of its own: %v", name, own)
		}
		c, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, m := range model.Mixers() {
		want := tiny().Optim.LR
		if m.Tiny.LR > 0 {
			want = m.Tiny.LR
		}
		if c, err := Preset(m.Name + "-tiny"); err != nil || c.Optim.LR != want {
			t.Errorf("the rate of %s-tiny: %v, %v, want %v", m.Name, c.Optim.LR, err, want)
		}
	}
}

// TestSettingsOfPresets checks learning rates, sequences of an update, their length, updates and warmup against the
// releases.
func TestSettingsOfPresets(t *testing.T) {
	got := map[string]string{}
	for _, name := range Presets() {
		if _, own := presets[name]; !own {
			continue
		}
		c, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = fmt.Sprint(c.Optim.LR, " ", c.Train.sequences(), " ", c.Train.SeqLen, " ", c.Train.Steps, " ",
			c.Optim.Warmup, " ", c.Tokenizer)
	}
	want := map[string]string{"small": "0.002 8 512 5000 200 bytes",
		"qwen3.5-0.8b": "0.0006 256 2048 30000 300 gpt2", "s4-wikitext-103": "0.0005 8 8192 800000 1000 gpt2",
		"h3-1.3b": "0.0002 512 2048 400000 4000 gpt2", "h3-2.7b": "0.00016 512 2048 400000 4000 gpt2"}
	for name, rate := range map[string]string{"h3-125m": "0.0006", "h3-355m": "0.0003", "mamba-130m": "0.003",
		"mamba-370m": "0.0015", "mamba-790m": "0.00125", "mamba-1.4b": "0.001", "mamba-2.8b": "0.0008",
		"mamba2-130m": "0.003",
		"mamba2-370m": "0.0015", "mamba2-780m": "0.00125", "mamba2-1.3b": "0.001", "mamba2-2.7b": "0.0008",
		"hyena-153m": "0.0006"} {
		want[name] = rate + " 256 2048 800000 8000 gpt2"
	}
	for name, of := range map[string][2]int{"tiny-1k": {256, 1024}, "tiny-1k-d256": {256, 1024}, "tiny-16k-d128": {64,
		16384},
		"small-32k": {32, 32768}, "medium-160k": {6, 160000}, "medium-450k": {2, 450000}, "large-1m": {1, 1000000}} {
		want["hyenadna-"+name] = fmt.Sprintf("0.0006 %d %d 10000 100 dna", of[0], of[1])
	}
	if !maps.Equal(got, want) {
		t.Errorf("found %v\nwant %v", got, want)
	}
	c := tiny()
	if l := c.Train; l.Steps != 700 || l.sequences() != 4 || l.SeqLen != 256 || l.EvalEvery != 100 ||
		l.EvalTokens != 16384 ||
		l.SampleEvery != 200 || l.SampleTokens != 200 || l.SaveEvery != 100 || l.LogEvery != 10 || c.Seed != 1 ||
		c.Optim.LR != 4e-3 || c.Optim.SSMLR != 1e-3 || c.Optim.Beta1 != 0.9 || c.Optim.Beta2 != 0.95 ||
		c.Optim.Eps != 1e-8 ||
		c.Optim.WeightDecay != 0.1 || c.Optim.Clip != 1 || c.Optim.Warmup != 60 || c.Optim.MinLRRatio != 0.1 ||
		c.ValidFraction != 0.1 {
		t.Errorf("the default run has %+v", c)
	}
	if s := c.sampling(); s.Temperature != 0.6 || s.TopK != 40 || s.Seed != 1 {
		t.Errorf("samples are drawn by %+v", s)
	}
	small, err := Preset("small")
	if l := small.Train; err != nil || l.EvalEvery != 250 || l.SaveEvery != 250 || l.SampleEvery != 500 {
		t.Errorf("small has %+v, %v", small.Train, err)
	}
	if l, err := Preset("h3-125m"); err != nil || l.Train.SaveEvery != 1000 || l.Train.SampleEvery != 1000 ||
		l.Optim.SSMLR != 0 {
		t.Errorf("%+v, %v", l.Train, err)
	}
	if _, err := Preset("none"); err == nil {
		t.Error("a preset that is none")
	}
}
