package session

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestPageOfTheFormat checks that docs/state-format.md has a row for every mixer, with the name and the number of
// dimensions of each tensor of its state, and mentions every field of the header.
func TestPageOfTheFormat(t *testing.T) {
	page, err := os.ReadFile("../docs/state-format.md")
	if err != nil {
		t.Fatal(err)
	}
	digits := regexp.MustCompile(`[0-9]+$`)
	for _, name := range model.MixerNames() {
		row := regexp.MustCompile("(?m)^\\| [^|]*`" + name + "`[^|]*\\|.*$").FindString(string(page))
		if row == "" {
			t.Errorf("there is no row of the mixer %s", name)
			continue
		}
		for _, x := range tensorsOf(t, name) {
			_, own, ok := strings.Cut(x.Name, "0.state.layers.0.")
			if !ok {
				continue
			}
			named := regexp.MustCompile("`" + digits.ReplaceAllString(own, "I?") + "` \\(([^)]*)\\)")
			of := named.FindStringSubmatch(row)
			if of == nil || len(strings.Split(of[1], ", ")) != len(x.Shape) {
				t.Errorf("%s: found %q for %s %v", name, of, own, x.Shape)
			}
		}
	}
	for _, field := range regexp.MustCompile(`json:"(\w+)`).FindAllStringSubmatch(sourceOf(t), -1) {
		if !strings.Contains(string(page), "`"+field[1]+"`") {
			t.Errorf("the field %s is not there", field[1])
		}
	}
}

// tensorsOf returns the tensors in the file of a session of a small model with the given mixer.
func tensorsOf(t *testing.T, mixer string) (all []checkpoint.Tensor) {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.NumHeads, c.DState, c.Layers = 32, 256, 2, 8, mixer
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	s := New(m, tokenizer.Bytes(), Options{})
	if err := s.Append(t.Context(), text(1, 20)); err != nil {
		t.Fatal(mixer, err)
	}
	file, err := checkpoint.ParseSafetensors(encode(t, s, FileOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range file.Names() {
		x, _ := file.Tensor(name)
		all = append(all, *x)
	}
	return all
}

// sourceOf returns the source code of the header.
func sourceOf(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"encode.go", "identity.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
