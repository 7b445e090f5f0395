package fit_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/fit"
)

// tones writes recordings of two classes, with a low and a high tone in noise, to folders named after them.
func tones(t *testing.T, rate, each int) string {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(uint64(rate), 1))
	for class, hertz := range map[string]float64{"low": 500, "high": 1500} {
		for i := range each {
			var data []byte
			pitch := hertz * (0.9 + 0.2*rng.Float64())
			for k := range rate / 10 {
				x := 0.3*math.Sin(2*math.Pi*pitch*float64(k)/float64(rate)) + 0.02*rng.NormFloat64()
				data = binary.LittleEndian.AppendUint16(data, uint16(int16(32767*x)))
			}
			head := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00")
			head = binary.LittleEndian.AppendUint32(head, uint32(rate))
			head = binary.LittleEndian.AppendUint32(head, uint32(2*rate))
			head = append(head, "\x02\x00\x10\x00data"...)
			head = binary.LittleEndian.AppendUint32(head, uint32(len(data)))
			path := filepath.Join(dir, class, fmt.Sprintf("%02d.wav", i))
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append(head, data...), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// TestSpectrum checks that classes of recordings at audio rates are learnt from frames unless samples are requested,
// and that predictions convert recordings at another rate to the same frames.
func TestSpectrum(t *testing.T) {
	res := run(t, small(t, tones(t, 8000, 20), func(c *fit.Config) { c.Epochs = 6 }))
	if res.Plan.Spectrum == nil || res.Plan.Spectrum.Top != 4000 || res.Classes.Accuracy < 99 ||
		!strings.Contains(strings.Join(res.Notes, "; "), "read as log-mel frames") {
		t.Fatalf("found the frames %v, %g %% right, the notes %q", res.Plan.Spectrum, res.Classes.Accuracy, res.Notes)
	}
	m, err := fit.Open(res.Config.Out)
	if err != nil {
		t.Fatal(err)
	}
	quick := tones(t, 16000, 4)
	all, _ := predict(t, res.Config.Out, quick, false)
	for i, p := range all {
		class, probability := p.Class()
		if want := []string{"high", "low"}[i/4]; m.Plan().ClassNames()[class] != want || probability < 0.9 {
			t.Errorf("recording %d: found %s with %g, want %s", i, m.Plan().ClassNames()[class], probability, want)
		}
	}
	if len(all) != 8 {
		t.Errorf("found %d predictions, want 8", len(all))
	}
	// a single recording has no class, so its next sample is predicted as before
	res = run(t, small(t, filepath.Join(quick, "low", "00.wav"), func(c *fit.Config) { c.Epochs, c.Length = 1, 32 }))
	if res.Plan.Spectrum != nil || res.Rows != 1600 {
		t.Errorf("found %v of %d rows", res.Plan.Spectrum, res.Rows)
	}
	c := small(t, write(t, "x.csv", "x\n1\n2\n"), func(c *fit.Config) { c.Spectrum = "mel" })
	if _, err := fit.Run(t.Context(), c, nil, fit.Events{}); err == nil ||
		!strings.Contains(err.Error(), "found data that is no recording, want WAV or FLAC for --spectrum mel") {
		t.Errorf("found %v", err)
	}
}

// TestClassWeights checks that given weights raise the recall of their class, and that they are validated.
func TestClassWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	var b strings.Builder
	b.WriteString("id,x,kind\n")
	for id := range 300 {
		up, class := 0.0, "ok"
		if id%10 == 0 {
			up, class = 0.5, "bad"
		}
		level := up + 0.5*rng.NormFloat64()
		for range 6 {
			fmt.Fprintf(&b, "%d,%.2f,%s\n", id, level, class)
		}
	}
	path := write(t, "rare.csv", b.String())
	auto := run(t, small(t, path, func(c *fit.Config) {
		c.Target, c.Series, c.Epochs, c.Use = []string{"kind"}, "id", 5, "network"
		c.Split = "0.4,0.4,0.2"
	}))
	if auto.Plan.Weights != nil != strings.Contains(strings.Join(auto.Notes, "; "), "classes are weighted by") {
		t.Errorf("found the weights %v, and the notes %q", auto.Plan.Weights, auto.Notes)
	}
	recall := map[string]float64{}
	with := func(weights string) fit.Config {
		return small(t, path, func(c *fit.Config) {
			c.Target, c.Series, c.ClassWeights, c.Epochs = []string{"kind"}, "id", weights, 5
		})
	}
	for _, weights := range []string{"none", "balanced", "bad=30"} {
		c := with(weights)
		s := run(t, c).Classes
		recall[weights] = s.PerClass[0].Recall
		if s.PerClass[0].Class != "bad" || (weights == "none") != (s.Floor != "" && recall[weights] == 0) {
			t.Errorf("%s: found %+v, the floor %q", weights, s.PerClass, s.Floor)
		}
		told, _ := predict(t, c.Out, path, false)
		n := 0
		for _, p := range told {
			if class, _ := p.Class(); class == 0 {
				n++
			}
		}
		if (n > 20) != (weights != "none") {
			t.Errorf("%s: found %d of 300 predicted to be bad", weights, n)
		}
		if s.Loss > 0.45 { // probabilities remain those of the data
			t.Errorf("%s: found a cross-entropy of %g", weights, s.Loss)
		}
	}
	if recall["none"] >= recall["balanced"] || recall["balanced"] > recall["bad=30"] {
		t.Errorf("found the recalls %v, want them to rise", recall)
	}
	for weights, want := range map[string]string{
		"worst=3": `found "worst", want one of the classes bad, ok`, "bad=0": "each from 1e-6 to 1e6",
		"much": "want auto, none, balanced, or weights such as",
	} {
		_, err := fit.Run(t.Context(), with(weights), nil, fit.Events{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found %v, want %q", weights, err, want)
		}
	}
	c := with("balanced")
	c.Target = []string{"x"}
	if _, err := fit.Run(t.Context(), c, nil, fit.Events{}); err == nil || !strings.Contains(err.Error(),
		"want a target of classes for it: x holds numbers") {
		t.Errorf("found %v", err)
	}
}
