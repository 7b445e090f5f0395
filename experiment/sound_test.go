package experiment

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/internal/wav"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
)

// speaker trains a network for one update on takes of a tone.
func speaker(t *testing.T) (dir string) {
	t.Helper()
	data := t.TempDir()
	for take := range 8 {
		samples := make([]int16, 400)
		for i := range samples {
			samples[i] = int16(9000 * math.Sin(.05*float64(i+take)))
		}
		name := filepath.Join(data, "recordings", "3_ann_"+string(rune('0'+take))+".wav")
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, wav.File(8000, samples), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Find("speech", "")
	if err != nil {
		t.Fatal(err)
	}
	c := &s.Config
	c.Model.Layers, c.Model.DModel, c.Steps, c.Data, c.Out = "s4d*2", 8, 1, data, filepath.Join(t.TempDir(), "run")
	if _, err := Run(t.Context(), s, Events{}); err != nil {
		t.Fatal(err)
	}
	return c.Out
}

// TestSound checks that a sound begins with the given recording and continues as the network's outputs for the whole
// sequence say. The same seed gives the same sound.
func TestSound(t *testing.T) {
	dir := speaker(t)
	o := SoundOptions{Seconds: .02, Example: 1, Given: .01, Seed: 1} // greedy
	sound, err := Sound(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ReadResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	ex, err := r.TestExample(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.FindNetwork(dir)
	if err != nil {
		t.Fatal(err)
	}
	levels := append([]int32{task.SpeechSilence}, ex.Targets[:80]...)
	for len(levels) <= 160 {
		y := m.Predict(model.Input{Tokens: levels, Lengths: []int{len(levels)}})
		next, err := sample.Best(y[len(y)-m.Config.Outputs:])
		if err != nil {
			t.Fatal(err)
		}
		levels = append(levels, next)
	}
	want := make([]int16, 160)
	for i, level := range levels[1:161] {
		want[i] = int16(math.Round(math.MaxInt16 * task.MuLawSample(level)))
	}
	if !bytes.Equal(sound, wav.File(8000, want)) {
		t.Error("found another sound than the recording's start and what the network says of the whole")
	}
	o.Temperature, o.Example = 1, -1
	again := func(seed uint64) []byte {
		o.Seed = seed
		sound, err := Sound(t.Context(), dir, o)
		if err != nil {
			t.Fatal(err)
		}
		return sound
	}
	if !bytes.Equal(again(1), again(1)) || bytes.Equal(again(1), again(2)) {
		t.Error("want a sound that depends on the seed alone")
	}
	if n := binary.LittleEndian.Uint32(sound[40:]); n != 320 || len(sound) != 44+320 {
		t.Errorf("found %d bytes of samples in %d, want 320 in 364", n, len(sound))
	}
	for _, sub := range []string{model.BestDir, model.LastDir} {
		if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Sound(t.Context(), dir, o); err == nil || !strings.Contains(err.Error(), "found no network.json") {
		t.Errorf("a run without its network: %v", err)
	}
	r.Task = "dna"
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Sound(t.Context(), dir, o); err == nil || !strings.Contains(err.Error(), "want one of speech") {
		t.Errorf("a network of another task: %v", err)
	}
}

// TestCodedResult checks that a result has the bits per sample of the network and of simple methods.
func TestCodedResult(t *testing.T) {
	r, err := ReadResult(speaker(t))
	if err != nil {
		t.Fatal(err)
	}
	r.Test.Loss = 3 * math.Ln2
	r.Simple[1].Loss = 2 * math.Ln2
	var out bytes.Buffer
	if err := r.Print(&out); err != nil || r.Coded != "sample" || len(r.Simple) != 2 ||
		!strings.Contains(out.String(), "3.0000 bits/sample") || !strings.Contains(out.String(), "2.0000 bits/sample") {
		t.Errorf("found %s, %v, %+v", out.String(), err, r.Simple)
	}
}
