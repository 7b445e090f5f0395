package fit_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/fit"
)

// recordings writes recordings of two classes, one of which is long.
func recordings(t *testing.T, long int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i := range 24 {
		samples := make([]float32, 100+i)
		if i == 0 {
			samples = make([]float32, long)
		}
		for k := range samples {
			samples[k] = float32(math.Sin(float64(k) / float64(1+2*(i%2))))
		}
		loud(t, filepath.Join(dir, fmt.Sprint("class", i%2), "023", fmt.Sprint(i, ".wav")), samples)
	}
	return dir
}

// TestPieces checks that recordings learnt in pieces have one prediction each, named by its path, which is the mean
// over the pieces.
func TestPieces(t *testing.T) {
	dir := recordings(t, 2000)
	res := run(t, small(t, dir, func(c *fit.Config) { c.Epochs, c.Spectrum, c.Length = 4, "none", 40 }))
	if !res.Plan.Pieces || res.Plan.Length != 40 || res.Windows[0] < 40 {
		t.Fatalf("found pieces: %v, of %d rows, %v windows", res.Plan.Pieces, res.Plan.Length, res.Windows)
	}
	all, _ := predict(t, res.Config.Out, dir, false)
	right := 0
	for _, p := range all {
		class, _ := p.Class()
		if strings.HasPrefix(p.Series, res.Plan.ClassNames()[class]+"/") {
			right++
		}
		if sum := p.Probabilities[0] + p.Probabilities[1]; math.Abs(sum-1) > 1e-6 {
			t.Errorf("%s: found probabilities %v", p.Series, p.Probabilities)
		}
	}
	if len(all) != 24 || right < 22 {
		t.Errorf("found %d predictions, %d of them right", len(all), right)
	}
	// a recording of two equal pieces has their prediction
	half := make([]float32, 40)
	for k := range half {
		half[k] = float32(math.Sin(float64(k)))
	}
	one, two := filepath.Join(t.TempDir(), "one.wav"), filepath.Join(t.TempDir(), "two.wav")
	loud(t, one, half)
	loud(t, two, append(half, half...))
	a, _ := predict(t, res.Config.Out, one, false)
	b, _ := predict(t, res.Config.Out, two, false)
	if math.Abs(a[0].Probabilities[0]-b[0].Probabilities[0]) > 1e-9 {
		t.Errorf("found %v for a piece and %v for two of it", a[0].Probabilities, b[0].Probabilities)
	}
}

// TestMemoryOfLongSequences checks that --memory considers the longest sequence and suggests a remedy.
func TestMemoryOfLongSequences(t *testing.T) {
	dir := recordings(t, 400_000)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(500 << 20))
	c := small(t, dir, func(c *fit.Config) { c.Epochs, c.Spectrum, c.Model.DModel = 1, "none", 64 })
	_, err := fit.Run(context.Background(), c, nil, fit.Events{})
	if err == nil || !strings.Contains(err.Error(), "the longest sequence has 400000 positions: "+
		"shorter ones (hippo fit: --length N") {
		t.Errorf("found %v", err)
	}
}
