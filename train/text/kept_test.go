package text

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// TestTextsAreClosed checks that notes on both texts are kept, and that both token files are closed with the data set.
func TestTextsAreClosed(t *testing.T) {
	c := small(t)
	c.Data = []string{folderOf(t, map[string]string{"a.txt": "some text", "b.txt": ""})}
	c.Valid = []string{folderOf(t, map[string]string{"a.txt": "more text", "b.txt": ""})}
	d, err := c.OpenData(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(c.Data[0], "b.txt") + " is empty and was left out",
		filepath.Join(c.Valid[0], "b.txt") + " is empty and was left out"}
	if !slices.Equal(d.Notes, want) {
		t.Errorf("notes %q, want %q", d.Notes, want)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	closed := func(read func()) (closed bool) {
		defer func() { closed = recover() != nil }()
		read()
		return false
	}
	if !closed(func() { d.Train.At(0) }) || !closed(func() { d.Valid.At(0) }) {
		t.Error("tokens can be read after closing")
	}
}

// TestAttentionSeesOneSequenceBack checks that in carried states the part of attention stays as long as a sequence.
func TestAttentionSeesOneSequenceBack(t *testing.T) {
	c := swift(t, "attention")
	c.Train.CarryState = true
	r := newRun(t, c)
	var sizes []int
	for range 3 {
		if _, _, err := r.loop.Step(); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, r.work.carried[3].Size())
	}
	if sizes[0] != sizes[1] || sizes[1] != sizes[2] {
		t.Errorf("the states take %v bytes after each update", sizes)
	}
}

// TestStepsOfSavedRun checks that a checkpoint of more steps than the run has is refused, unless the run ends by time.
func TestStepsOfSavedRun(t *testing.T) {
	c := swift(t, "mamba")
	c.Train.Steps = 2
	mustRun(t, c)
	last := filepath.Join(c.Out, model.LastDir)
	path := filepath.Join(last, train.TrainerFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(last, checkpoint.ManifestFile)); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		steps, time int
		want        string
	}{{2, 0, ""}, {1, 0, "step: found 2, want at most the 1 steps"}, {1, 1e9, ""}} {
		var all map[string]any
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&all); err != nil {
			t.Fatal(err)
		}
		loop := all["config"].(map[string]any)["train"].(map[string]any)
		loop["steps"], loop["time"] = k.steps, k.time
		changed, err := json.Marshal(all)
		if err == nil {
			err = os.WriteFile(path, changed, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRun(c.Out); (err == nil) != (k.want == "") || err != nil &&
			!strings.Contains(err.Error(), k.want) {
			t.Errorf("%+v: %v", k, err)
		}
	}
}

// TestTokenizerOfBase checks that the run of an adapter takes the tokenizer of its base or, if that has none, the one
// that its settings name.
func TestTokenizerOfBase(t *testing.T) {
	path := ggufFile(t, checkpoint.F32, nil)
	c := Config{Tokenizer: "bytes", LoRA: LoRA{Rank: 2}, Base: Base{Name: path, Path: path}}
	if tok, err := c.runTokenizer(); err != nil || tok.Kind() != "bytes" {
		t.Errorf("found %v, %v", tok, err)
	}
	c.Tokenizer = ""
	if _, err := c.runTokenizer(); err == nil || !strings.Contains(err.Error(), "tokenizer: found none with") {
		t.Errorf("without any: %v", err)
	}
	c.Base.Path += "x"
	if _, err := c.runTokenizer(); err == nil || !strings.Contains(err.Error(), "cannot be resumed without it") {
		t.Errorf("without the base: %v", err)
	}
}
