package text

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestBasesThatAreNone checks bases whose plan, tokenizer, folder or card cannot be read.
func TestBasesThatAreNone(t *testing.T) {
	good, bad := model.DefaultConfig(), model.DefaultConfig()
	good.Layers, bad.Layers = "h3*2", "h3*x"
	other := good
	other.Layers = "h3*3"
	for _, k := range []struct {
		a, b *model.Config
		want bool
	}{{&good, &good, true}, {&good, &other, false}, {&bad, &bad, false}, {&good, &bad, false}, {&bad, &good, false}} {
		if samePlan(k.a, k.b) != k.want {
			t.Errorf("plans of %q and %q are the same: %v", k.a.Layers, k.b.Layers, !k.want)
		}
	}
	chars, err := tokenizer.Characters(strings.NewReader("abc"))
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]bool{"bytes": true, "dna": false, "chars": false, "/gone/x.json": false} {
		if sameTokenizer(spec, tokenizer.Bytes()) != want {
			t.Errorf("%s is the tokenizer of bytes: %v", spec, !want)
		}
	}
	if !sameTokenizer("chars", chars) {
		t.Error("chars is not the tokenizer of characters")
	}
	if dir := (&Base{Path: "/gone/model"}).dir(); dir != "/gone/model" {
		t.Errorf("a base that is gone is in %s", dir)
	}
	c := Config{Tokenizer: "chars", Data: []string{"/gone"}, Base: Base{tok: chars}}
	if n, err := c.VocabSize(); n != chars.VocabSize() || err != nil {
		t.Errorf("a base of %d characters: %d, %v", chars.VocabSize(), n, err)
	}
	said := parseCard("---\nlicense:\na line\n- mit\n---\n")
	if !slices.Equal(said, []Said{{"license", "mit"}}) {
		t.Errorf("found %v", said)
	}
}

// odd is a tokenizer that returns no ids, or ids together with an error.
type odd struct {
	tokenizer.Tokenizer
	ids []int32
	err error
}

func (o *odd) Encode([]int32, []byte) ([]int32, error) { return o.ids, o.err }

// TestPromptsWithoutTokens checks that a prompt that the tokenizer cannot encode is noted and not used, and that words
// of the text without tokens are not used either.
func TestPromptsWithoutTokens(t *testing.T) {
	for _, k := range []struct {
		o    odd
		note string
	}{{odd{}, `found "The ": the tokenizer has no token for it; sample`}, {odd{ids: []int32{1},
		err: errors.New("none")}, `found "The ": none; sample`}} {
		w := newRun(t, swift(t, "mamba")).work
		k.o.Tokenizer = w.Data.Tokenizer
		w.Data.Tokenizer = &k.o
		w.choosePrompt()
		begin := make([]int32, 8)
		if _, err := w.Data.Valid.Read(begin, 0); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(w.prompt.ids, begin) || len(w.Data.Notes) != 1 || !strings.Contains(w.Data.Notes[0], k.note) {
			t.Errorf("the prompt is %v of %v, notes %q", w.prompt.ids, begin, w.Data.Notes)
		}
	}
}

// TestStatesAreNeeded checks that an update that carries states always has some, anywhere in the text.
func TestStatesAreNeeded(t *testing.T) {
	c := swift(t, "mamba")
	c.Train.CarryState = true
	w := newRun(t, c).work
	for range 2 {
		w.carried = nil
		if n, err := w.Read(0); n != 4 || err != nil || len(w.carried) != 4 {
			t.Errorf("%d sequences, %v, %d states", n, err, len(w.carried))
		}
	}
}

// TestCopiesOfOtherSizes checks that a copy reuses the memory of an earlier one only if it fits.
func TestCopiesOfOtherSizes(t *testing.T) {
	x, same, larger := tensor.New(2, 3), tensor.New(2, 3), tensor.New(3, 3)
	x.CopyFrom([]float32{1, 2, 3, 4, 5, 6})
	for _, to := range []*tensor.Tensor{nil, same, larger} {
		if y := copyInto(to, x); !slices.Equal(y.Floats(), x.Floats()) || !y.SameShape(x) || (y == to) != (to == same) {
			t.Errorf("found %v of shape %v", y.Floats(), y.Shape())
		}
	}
}

// TestStandardInputIsReadOnce checks that a text from standard input is converted to the tokens of another model
// without reading it again.
func TestStandardInputIsReadOnce(t *testing.T) {
	chars, err := tokenizer.Characters(strings.NewReader("abc"))
	if err != nil {
		t.Fatal(err)
	}
	valid, err := data.FromIDs([]int32{'c', 'a', 'b'}, 256)
	if err != nil {
		t.Fatal(err)
	}
	e := &evalTexts{opt: ModelEvalOptions{Data: []string{"-"}}, valid: valid}
	texts, err := e.in(t.Context(), tokenizer.Bytes(), chars)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int32, 4)
	n, err := texts.valid.Read(ids, 0)
	if got := string(chars.Decode(nil, ids[:n])); got != "cab" || err != nil {
		t.Errorf("found %q, %v", got, err)
	}
	if err := texts.close(); err != nil {
		t.Error(err)
	}
}

// TestHalfAChat checks that a text as prompt together with messages as completion, or the reverse, is an error.
func TestHalfAChat(t *testing.T) {
	c, err := newChats(map[string][]byte{"chat_template.jinja": []byte(chatML)}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	const list = `[{"role": "user", "content": "a"}]`
	for line, want := range map[string]string{
		`{"prompt": "a", "completion": ` + list + `}`:   `prompt: found "a", want a list of messages`,
		`{"prompt": ` + list + `, "completion": "a"}`:   `completion: found "a", want a list of messages`,
		`{"prompt": "a", "completion": ""}`:             "completion: found no text",
		`{"completion": "a"}`:                           `found none of "messages"`,
		`{"prompt": ` + list + `, "response": "hello"}`: `completion: found "hello", want a list of messages`,
	} {
		if _, err := c.Read([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestCopiesAreUsedAgain checks that the copies that an update keeps of layers reuse the memory of those of the update
// before.
func TestCopiesAreUsedAgain(t *testing.T) {
	c := swift(t, "mamba*2")
	c.Train.Recompute = true
	r := newRun(t, c)
	var before []*tensor.Tensor
	for range 2 {
		if _, _, err := r.loop.Step(); err != nil {
			t.Fatal(err)
		}
		if now := r.work.copies.streams; len(now) < 3 || slices.Contains(now, nil) ||
			before != nil && !slices.Equal(now, before) {
			t.Errorf("%d streams, after %d before, or others", len(now), len(before))
		}
		before = slices.Clone(r.work.copies.streams)
	}
}

// TestRuinedModel checks that measuring a model with an infinite logit or a NaN weight is an error that says so.
func TestRuinedModel(t *testing.T) {
	text := filepath.Join(folderOf(t, map[string]string{"text.txt": strings.Repeat("some text ", 20)}), "text.txt")
	for _, huge := range []float32{3e38, float32(math.NaN())} {
		m := toymodel.New(t, "h3", 256)
		table := m.Embedding.Weight
		x := table.Floats()
		x[16*'z'] = huge // weight of a token that is not in the text
		table.CopyFrom(x)
		e, _ := toys(t, ModelEvalOptions{Data: []string{text}, BatchSize: 1, SeqLen: 50},
			map[string]*LoadedModel{"a": {"model a", m, tokenizer.Bytes()}})
		if _, err := e.Run(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), "are ruined") {
			t.Errorf("a weight of %g: %v", huge, err)
		}
	}
}
