package train_test

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/train/text"
)

// Names of parameters in the releases: A, B and dt of an H3 layer's systems, its other SSM parameters, and norms.
var (
	systemName = regexp.MustCompile(`kernel\.(log_dt|B|inv_A_real|A_imag)$`)
	ssmName    = regexp.MustCompile(`mixer\.((ssm_k_)?kernel\.|D$|ssm_k_D$)`)
	normName   = regexp.MustCompile(`(norm\d|ln_f)\.`)
)

// TestUpdateOfEachGroup checks that the first update of a hybrid moves every parameter by its own learning rate, and
// shrinks those that decay, and no others, by the fraction lr·decay. Adam's first update depends only on the gradient's
// sign, so runs that differ only in decay or rate differ by exactly that.
func TestUpdateOfEachGroup(t *testing.T) {
	const lr, ssmLR, decay = 1e-2, 2.5e-3, 0.5
	type result struct{ before, after []float32 }
	first := func(change func(*text.Config)) map[string]result {
		c := small(t)
		c.Train.Shards = 1
		c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 0, 0, 0
		c.Optim.LR, c.Optim.SSMLR, c.Optim.WeightDecay = lr, 0, 0
		c.Optim.Warmup, c.Optim.Schedule, c.Optim.Clip = 0, "constant", 0
		change(&c)
		d, err := c.OpenData(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		l := language(t, c, d)
		all := map[string]result{}
		for name, x := range l.Named() {
			v := x.Elements()
			for i := range v {
				if v[i] == 0 {
					v[i] = 0.125 // a decay of 0 would not show
				}
			}
			x.Changed()
			all[name] = result{before: append([]float32(nil), v...)}
		}
		if _, _, err := l.Step(); err != nil {
			t.Fatal(err)
		}
		for name, x := range l.Named() {
			all[name] = result{all[name].before, append([]float32(nil), x.Elements()...)}
		}
		return all
	}
	plain := first(func(*text.Config) {})
	if len(plain) < 20 {
		t.Fatalf("found %d parameters, want those of an H3 layer, of attention and of two MLPs", len(plain))
	}
	counts := map[bool]int{}
	for _, rule := range []string{"release", "matrices"} {
		for name, got := range first(func(c *text.Config) { c.Optim.WeightDecay, c.Optim.DecayRule = decay, rule }) {
			decays := !systemName.MatchString(name)
			if rule == "matrices" {
				decays = strings.HasSuffix(name, ".weight") && !normName.MatchString(name) && !ssmName.MatchString(name)
			}
			counts[decays]++
			want := 0.0
			if decays {
				want = lr * decay
			}
			for i, w := range plain[name].after {
				x := float64(got.before[i])
				if shrunk := float64(w) - float64(got.after[i]); math.Abs(shrunk-want*x) > 1e-6*max(1, math.Abs(x)) {
					t.Errorf("%s: %s of %v at %d shrank by %.3g, want %.3g", rule, name, x, i, shrunk, want*x)
					break
				}
			}
		}
	}
	for name, got := range first(func(c *text.Config) { c.Optim.SSMLR = ssmLR }) {
		ratio := 1.0
		if systemName.MatchString(name) {
			ratio = ssmLR / lr
		}
		for i, w := range plain[name].after {
			x := float64(got.before[i])
			step, want := float64(got.after[i])-x, ratio*(float64(w)-x)
			if math.Abs(step-want) > 1e-6*max(1, math.Abs(x)) {
				t.Errorf("%s moved by %.3g at %d, want %.3g", name, step, i, want)
				break
			}
		}
	}
	if counts[true] < 20 || counts[false] < 10 {
		t.Errorf("%d parameters decay and %d do not, want many of both", counts[true], counts[false])
	}
}
