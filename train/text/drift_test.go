package text

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/quantize"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestDriftOfModels checks the reports of compared models, their table, and the errors for models that cannot be
// compared.
func TestDriftOfModels(t *testing.T) {
	chars, err := tokenizer.Characters(strings.NewReader("some text"))
	if err != nil {
		t.Fatal(err)
	}
	models := map[string]*LoadedModel{"chars": {"chars", toymodel.New(t, "h3", 256), chars}, "fixed": {"fixed",
		toymodel.Fresh(t, func(c *model.Config) { c.VocabSize, c.Layers, c.MaxPositions = 256, "h3", 10 }),
		tokenizer.Bytes()}}
	for i, name := range []string{"a", "b", "c"} {
		net := toymodel.New(t, "h3", 256)
		if net.Init(uint64(i)); i == 2 {
			net = toymodel.New(t, "h3,h3", 256)
		}
		models[name] = &LoadedModel{"model " + name, net, tokenizer.Bytes()}
	}
	text := filepath.Join(folderOf(t, map[string]string{"text.txt": strings.Repeat("some text ", 150)}), "text.txt")
	root := t.TempDir()
	start, err := data.FromIDs([]int32{'s', 'o', 'm', 'e', ' ', 't', 'e', 'x', 't', ' ', 's'}, 256)
	if err != nil {
		t.Fatal(err)
	}
	ten, err := Evaluate(t.Context(), models["fixed"].Net, start, EvalOptions{SeqLen: 10, BatchSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		names, want, note string
		o                 ModelEvalOptions
	}{
		{"a b", "", "", ModelEvalOptions{Drift: 1200}}, {"a b", "", "", ModelEvalOptions{Drift: 1499}},
		{"a b", "", "drift: found a text of 1499 tokens, wanted 1500", ModelEvalOptions{Drift: 1500}},
		{"a b a", "", "", ModelEvalOptions{Drift: 1200, SeqLen: 100}},
		{"a", "drift: found one model", "", ModelEvalOptions{Drift: 10}},
		{"a b", "drift: found it together with baseline", "", ModelEvalOptions{Drift: 10, Baseline: true}},
		{"a chars", "chars: found another tokenizer than", "", ModelEvalOptions{Drift: 10}},
		{"a c", "drift: found states of other layers", "", ModelEvalOptions{Drift: 10}},
		{"gone b", "no model", "", ModelEvalOptions{Drift: 10}}, {"a gone", "no model", "",
			ModelEvalOptions{Drift: 10}},
		{"fixed fixed", "drift: found 11, but the model takes at most 10 tokens", "", ModelEvalOptions{Drift: 11}},
		{"fixed fixed", "", "", ModelEvalOptions{Drift: 10}},
	} {
		k.o.Data = []string{text}
		e, notes := toys(t, k.o, models)
		ends, last := 0, [2]int{}
		pieces := map[int]bool{}
		e.Progress = func() (func(done, total int), func()) {
			return func(done, total int) { pieces[done-last[0]], last = true, [2]int{done, total} }, func() { ends++ }
		}
		var dirs []string
		for _, name := range strings.Fields(k.names) {
			dirs = append(dirs, filepath.Join(root, name))
		}
		reports, err := e.Compare(t.Context(), dirs)
		if strings.Join(*notes, "; ") != k.note {
			t.Errorf("%s: notes %q", k.names, *notes)
		}
		if k.want != "" {
			if err == nil || !strings.Contains(err.Error(), k.want) {
				t.Errorf("%s: %v, want %q", k.names, err, k.want)
			}
			continue
		}
		n := min(k.o.Drift, 1499)
		if err != nil || ends != 1 || last != [2]int{n, n} || pieces[100] != (k.o.SeqLen == 100) {
			t.Fatalf("%s: %v, %d ends, progress %v in pieces %v", k.names, err, ends, last, pieces)
		}
		parts := 1 + n/1001 // the first part ends after 1,000 tokens
		if len(reports) != parts*(len(dirs)-1) {
			t.Fatalf("%s: %d reports", k.names, len(reports))
		}
		for i, r := range reports {
			name := strings.Fields(k.names)[1+i/parts]
			want := [2]int{0, min(n, 1000)}
			if i%parts == 1 {
				want = [2]int{1000, n}
			}
			if k.o.Drift == 10 && math.Abs(r.Loss/ten.Loss-1) > 1e-5 {
				t.Errorf("a loss of %v, want %v", r.Loss, ten.Loss)
			}
			if r.Model != models[name].Dir || r.From != models[strings.Fields(k.names)[0]].Dir ||
				filepath.Base(r.Text) !=
					"text.txt" || r.Every != 1 || [2]int{r.Start, r.End} != want || (r.KL > 1e-9) != (name == "b") ||
				r.Loss <= 0 {
				t.Errorf("%s: %+v", k.names, r)
			}
		}
	}
	dir := folderOf(t, map[string]string{"a.txt": strings.Repeat("some text ", 2), "empty.txt": ""})
	e, notes := toys(t, ModelEvalOptions{Drift: 10, Data: []string{dir}}, models)
	if _, err := e.Compare(t.Context(), []string{filepath.Join(root, "a"), filepath.Join(root, "b")}); err != nil ||
		strings.Join(*notes, "; ") != filepath.Join(dir, "empty.txt")+" is empty and was left out" {
		t.Errorf("notes on the text: %q, %v", *notes, err)
	}
	var out bytes.Buffer
	err = PrintDrift(&out, []DriftReport{
		{Model: "b", From: "a", Text: "t", End: 1000, Loss: 1.5, Drift: quantize.Drift{Logits: 0.0123, KL: 0.00456,
			More: -0.25}},
		{Model: "b", From: "a", Text: "t", End: 3000, Loss: 2, Drift: quantize.Drift{Logits: 1, State: 0.5, Worst: 0.75,
			Where: "x"}},
	})
	want := `text: t
compared with: a

model  tokens up to  logits off by  divergence  loss    more  states off by  most
b      1000          1.23 %         0.00456     1.5000  -0.25000
b      3000          100 %          0           2.0000  +0.00000  50 %  75 % in x
`
	if err != nil || out.String() != want {
		t.Errorf("found\n%s\nwant\n%s", out.String(), want)
	}
}

// TestReportTexts checks the printed reports of one model and of several, with and without baselines.
func TestReportTexts(t *testing.T) {
	r := &ModelReport{Model: "m", Params: 1200, Text: "t", SeqLen: 64, Tokenizer: "bytes", Words: 7,
		WordPerplex:  33.333,
		TokensPerSec: 5000, EvalResult: EvalResult{Loss: 2, Perplexity: 7.389, BitsByte: 1.5, Tokens: 30, Bytes: 40}}
	counted := *r
	counted.Stream, counted.Baseline, counted.CountedIn = true, &data.Baseline{Unigram: 3, Bigram: 2.5}, 99
	other := *r
	other.Text = "u"
	const plain = `model                m, 1.2K parameters
text                 t
read as              windows of 64, each from an empty state
tokens               30, for 40 bytes
loss                 2.0000 nats per token
perplexity           7.389
perplexity per word  33.33, of 7 words between white space
bits per byte        1.5000
speed                5.0K tokens/s
`
	const more = `unigram loss         3.0000 nats per token, counted in 99 tokens
bigram loss          2.5000 nats per token
`
	const head = `text: t

model             parameters  tokenizer  window  tokens  bytes  loss    perplexity  bits/byte  per word  tokens/s
m                 1.2K        bytes      stream  30      40     2.0000  7.389       1.5000     33.33     5.0K
m                 1.2K        bytes      64      30      40     2.0000  7.389       1.5000     33.33     5.0K
(bigram counts)               bytes                             2.5000              1.8750
(unigram counts)              bytes                             3.0000              2.2500
`
	for _, k := range []struct {
		all  []*ModelReport
		want string
	}{
		{[]*ModelReport{r}, plain}, {[]*ModelReport{&counted}, strings.Replace(plain,
			"windows of 64, each from an empty state", "one stream, in chunks of 64", 1) + more},
		{[]*ModelReport{&counted, &other}, head}, {[]*ModelReport{r, r}, ""},
	} {
		var out bytes.Buffer
		err := PrintReports(&out, k.all)
		if k.want == "" {
			if strings.Contains(out.String(), "counts") || strings.Count(out.String(), "\n") != 5 {
				t.Errorf("without counts found\n%s", out.String())
			}
			continue
		}
		if err != nil || out.String() != k.want {
			t.Errorf("found\n%s\nwant\n%s", out.String(), k.want)
		}
	}
	for nats, want := range map[float64]string{1: "1.0000 nats per token (perplexity 2.72)",
		12: "12.0000 nats per token (perplexity 162754.79)", 13: "13.0000 nats per token (perplexity 4.42e+05)"} {
		if got := LossText(nats); got != want {
			t.Errorf("%g: found %s, want %s", nats, got, want)
		}
	}
	if !slices.Contains(cardKeys, beganWith) || cell("a|b") != `a\|b` {
		t.Errorf("a cell is %q", cell("a|b"))
	}
	for text, want := range map[string]string{"a": "```\na\n```", "```": "````\n```\n````", "\xff": "```\n\uFFFD\n```",
		"````": "`````\n````\n`````"} {
		if got := quote(text); got != want {
			t.Errorf("%q is quoted as %q, want %q", text, got, want)
		}
	}
}
