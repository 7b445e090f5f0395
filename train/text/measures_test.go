package text

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// TestHowMeasuringGoes checks windows and streams, the reported progress, and the errors for texts that cannot be
// measured.
func TestHowMeasuringGoes(t *testing.T) {
	m := toymodel.New(t, "h3,attention", 23)
	ids := toymodel.Text(1, 40, 23)
	tokens, err := data.FromIDs(ids, 23)
	if err != nil {
		t.Fatal(err)
	}
	each := toymodel.LogProbs(m, ids)
	mean := func(logs []float64) (loss float64) {
		for _, v := range logs {
			loss -= v / float64(len(logs))
		}
		return loss
	}
	for _, k := range []struct {
		o    EvalOptions
		told string
		want float64 // 0: the loss differs from that of the whole text at once
	}{
		{EvalOptions{SeqLen: 39, BatchSize: 1}, "39/39 ", mean(each)},
		{EvalOptions{SeqLen: 13, BatchSize: 2}, "26/39 39/39 ", 0},
		{EvalOptions{SeqLen: 13, BatchSize: 2, Stream: true}, "13/39 26/39 39/39 ", mean(each)},
		{EvalOptions{SeqLen: 13, BatchSize: 2, Stream: true, Chunk: 4}, "13/39 26/39 39/39 ", mean(each)},
		{EvalOptions{SeqLen: 13, BatchSize: 2, Stream: true, Keep: 1 << 20}, "13/39 26/39 39/39 ", mean(each)},
		{EvalOptions{SeqLen: 13, BatchSize: 2, Stream: true, Keep: 1}, "13/39 26/39 39/39 ", 0},
		{EvalOptions{SeqLen: 39, BatchSize: 1, Chunk: 10}, "39/39 ", mean(each)},
		{EvalOptions{SeqLen: 39, BatchSize: 1, Chunk: 39}, "39/39 ", mean(each)},
		{EvalOptions{SeqLen: 25, BatchSize: 1}, "25/39 39/39 ", 0},
	} {
		told := ""
		k.o.Progress = func(done, total int) { told += fmt.Sprintf("%d/%d ", done, total) }
		r, err := Evaluate(t.Context(), m, tokens, k.o)
		if same := math.Abs(r.Loss-mean(each)) < 1e-5*r.Loss; err != nil || same != (k.want > 0) || told != k.told ||
			r.Tokens != 39 || r.Bytes != 39 || r.Seconds <= 0 || r.Seconds > 100 {
			t.Errorf("%+v: %+v, %v, %s; of all at once %v", k.o, r, err, told, mean(each))
		}
		if math.Abs(r.Perplexity/math.Exp(r.Loss)-1) > 1e-12 || math.Abs(r.BitsByte*math.Ln2/r.Loss-1) > 1e-12 ||
			math.Abs(r.PerWord(13)/math.Exp(3*r.Loss)-1) > 1e-9 || r.PerWord(0) != math.Exp(39*r.Loss) {
			t.Errorf("%+v, %v for each of 13 words", r, r.PerWord(13))
		}
	}
	if _, err := Evaluate(t.Context(), m, tokens, EvalOptions{BatchSize: 1}); err == nil {
		t.Error("windows of no length")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Evaluate(ctx, m, tokens, EvalOptions{SeqLen: 5, BatchSize: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	given, corpus, _, err := Tokenize(t.Context(), tokenizer.Bytes(), []string{jsonl(t, map[string]string{"prompt": "q",
		"completion": "a"})}, ReadOptions{Cache: data.CacheNone})
	if err != nil {
		t.Fatal(err)
	}
	defer corpus.Close()
	m = toymodel.New(t, "h3", 256)
	r, err := Evaluate(t.Context(), m, given, EvalOptions{SeqLen: 5, BatchSize: 1})
	if err != nil || r.Tokens != 1 || r.Bytes != 1 || math.Abs(r.BitsByte*math.Ln2/r.Loss-1) > 1e-12 {
		t.Errorf("one byte of two counts: %+v, %v", r, err)
	}
	rough := m.NewTape()
	train.ForUpdates(rough, engine.BF16)
	if again, err := Evaluate(t.Context(), m, given, EvalOptions{SeqLen: 5, BatchSize: 1, tape: rough}); err != nil ||
		again.Loss != r.Loss {
		t.Errorf("after updates in bf16 the loss is %v, %v, want %v", again.Loss, err, r.Loss)
	}
	held := func(n int, o EvalOptions) int { // bytes that the tape holds for a text of n tokens
		o.tape = m.NewTape()
		o.BatchSize = 1
		part, err := data.FromIDs(toymodel.Text(1, n, 256), 256)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Evaluate(t.Context(), m, part, o); err != nil {
			t.Fatal(err)
		}
		return o.tape.Bytes()
	}
	if few, many := held(21, EvalOptions{SeqLen: 10}), held(101, EvalOptions{SeqLen: 10}); many > few {
		t.Errorf("two windows take %d bytes, ten %d", few, many)
	}
	if all, some := held(101, EvalOptions{SeqLen: 100}), held(101, EvalOptions{SeqLen: 100, Chunk: 10}); some > all/2 {
		t.Errorf("a window takes %d bytes, in chunks %d", all, some)
	}
	question, corpus2, _, err := Tokenize(t.Context(), tokenizer.Bytes(), []string{jsonl(t, map[string]string{
		"prompt": "a question", "completion": "a"})}, ReadOptions{Cache: data.CacheNone})
	if err != nil {
		t.Fatal(err)
	}
	defer corpus2.Close()
	r, err = Evaluate(t.Context(), m, question, EvalOptions{SeqLen: 6, BatchSize: 1, Chunk: 3})
	all, failed := Evaluate(t.Context(), m, question, EvalOptions{SeqLen: 6, BatchSize: 1})
	if err != nil || failed != nil || r.Tokens != 1 || !(math.Abs(r.Loss/all.Loss-1) < 1e-5) {
		t.Errorf("after a window in which nothing counts: %+v, %v", r, err)
	}
	one := toymodel.Fresh(t, func(c *model.Config) { c.VocabSize, c.Layers, c.MaxPositions = 23, "h3", 10 })
	for _, k := range []struct {
		l      int
		stream bool
		want   string
	}{
		{10, false, ""}, {11, false, "sequence length: found 11, but the model takes at most 10 tokens"},
		{3, true, "sequence length: the text has no end, but the model takes at most 10 tokens"},
	} {
		_, err := Evaluate(t.Context(), one, tokens, EvalOptions{SeqLen: k.l, BatchSize: 1, Stream: k.stream})
		if k.want == "" && err != nil || k.want != "" && (err == nil || err.Error() != k.want) {
			t.Errorf("%+v: %v", k, err)
		}
	}
}

// toys returns a ModelEval that loads the given models by the names of their folders, with a list of its notes.
func toys(t *testing.T, o ModelEvalOptions, models map[string]*LoadedModel) (e *ModelEval, notes *[]string) {
	e, notes = measured(o)
	e.Load = func(dir string) (*LoadedModel, error) {
		if m := models[filepath.Base(dir)]; m != nil {
			return m, nil
		}
		return nil, errors.New("no model")
	}
	return e, notes
}

// TestTextsOfModels checks on which text models are measured, by options and by the model's run.
func TestTextsOfModels(t *testing.T) {
	chars, err := tokenizer.Characters(strings.NewReader("some text\nother muchü"))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("some text\nother ", 8)
	dir := folderOf(t, map[string]string{
		"sub/a.txt": "or so much more text", "sub/empty.txt": "", "two.txt": "öü text or so much more text",
		"long.txt":  long,
		"short.txt": "or so much more text text",
		"lines.jsonl": `{"text": "some"}` + "\n" +
			`{"text": "more"}` + "\n",
	})
	path := func(name string) string { return filepath.Join(dir, name) }
	const settings = "cache: none\ntrain: {seq_len: 20}\nvalid_fraction: 0.25\ndata: [%q]\nvalid: [%s]\n"
	root := t.TempDir()
	folders := map[string]string{}
	for name, text := range map[string]string{
		"run": fmt.Sprintf(settings, path("long.txt"), ""), "valid": fmt.Sprintf(settings, path("long.txt"),
			path("short.txt")), "other": fmt.Sprintf(settings, path("short.txt"), ""),
		"stdin": fmt.Sprintf(settings, "-", ""), "half": strings.Replace(fmt.Sprintf(settings, path("long.txt"), ""),
			"0.25", "0.5", 1), "plain": "", "wide": "", "lost": "",
	} {
		if text == "" {
			folders[name] = filepath.Join(root, name)
			continue
		}
		folders[name] = filepath.Join(folderOf(t, map[string]string{name + "/config.yaml": text}), name)
	}
	bytesTok := tokenizer.Bytes()
	models := map[string]*LoadedModel{"wide": {"wide", toymodel.New(t, "h3", 256), chars},
		"ruined": {"ruined", toymodel.New(t, "h3,h3", 256), bytesTok}}
	for i, name := range []string{"run", "valid", "other", "stdin", "half", "plain"} {
		net := toymodel.New(t, "h3", 256)
		net.Init(uint64(i))
		models[name] = &LoadedModel{name, net, bytesTok}
	}
	n := len(long)
	mine := ModelEvalOptions{Data: []string{path("short.txt")}}
	for _, k := range []struct {
		name, text string
		tokens     int // number of predicted tokens
		window     int
		o          ModelEvalOptions
	}{
		{"run", "validation part of long.txt", n/4 - 1, 20, ModelEvalOptions{}},
		{"valid", "short.txt", 24, 20, ModelEvalOptions{}},
		{"run", "short.txt", 24, 20, mine}, {"plain", "short.txt", 24, 1024, mine},
		{"plain", "last part of short.txt", 12, 1024, ModelEvalOptions{Data: mine.Data, ValidFraction: 0.5}},
		{"run", "validation part of long.txt", n/4 - 1, 7, ModelEvalOptions{SeqLen: 7}},
		{"stdin", "short.txt", 24, 20, mine},
	} {
		e, notes := toys(t, k.o, models)
		all, err := e.Run(t.Context(), []string{folders[k.name]})
		if err != nil || len(*notes) > 0 {
			t.Errorf("%+v: %v, %q", k, err, *notes)
			continue
		}
		r := all[0]
		if strings.ReplaceAll(r.Text, dir+"/", "") != k.text || r.Tokens != k.tokens ||
			r.SeqLen != k.window || r.Model != k.name || r.Params != models[k.name].Net.NumParams() ||
			r.Tokenizer != "bytes" || r.Words != map[bool]int{true: 6, false: r.Words}[k.tokens == 24] || r.Stream ||
			r.Baseline != nil || r.CountedIn != 0 ||
			math.Abs(r.TokensPerSec*r.Seconds/float64(r.Tokens)-1) > 1e-6 || r.WordPerplex != r.PerWord(r.Words) {
			t.Errorf("%+v: %+v", k, r)
		}
	}
	for _, k := range []struct {
		name    string
		o       ModelEvalOptions
		counted int
	}{
		{"run", ModelEvalOptions{Baseline: true}, n - n/4},
		{"run", ModelEvalOptions{Baseline: true, Data: mine.Data}, n - n/4},
		{"plain", ModelEvalOptions{Baseline: true, Data: mine.Data, TrainData: []string{path("long.txt")}}, n},
		{"plain", ModelEvalOptions{Baseline: true, Data: []string{path("long.txt")}, ValidFraction: 0.25}, n - n/4},
	} {
		e, _ := toys(t, k.o, models)
		all, err := e.Run(t.Context(), []string{folders[k.name]})
		if err != nil || all[0].Baseline == nil || all[0].CountedIn != k.counted || all[0].Baseline.Unigram < 1 {
			t.Errorf("%+v: %+v, %v", k, all, err)
		}
	}
	for _, k := range []struct {
		names, want string
		o           ModelEvalOptions
	}{
		{"stdin", "data: found nothing, want a text: the run was trained on standard input", ModelEvalOptions{}},
		{"run", "valid_fraction: found it without data", ModelEvalOptions{ValidFraction: 0.5}},
		{"run", "train_data: found it without baseline", ModelEvalOptions{TrainData: mine.Data}},
		{"plain", "baseline: found no text to count in", ModelEvalOptions{Data: mine.Data, Baseline: true}},
		{"plain", "train_data: found it together with valid_fraction", ModelEvalOptions{Data: mine.Data, Baseline: true,
			TrainData: mine.Data, ValidFraction: 0.5}},
		{"lost", "no model", mine}, {"run lost", "lost: no model", mine}, {"plain", "does not exist", ModelEvalOptions{
			Data: []string{"/gone"}}},
		{"ruined", "ruined: found the loss NaN, want a finite one", mine},
		{"plain", "seq_len -1", ModelEvalOptions{Data: mine.Data, SeqLen: -1}},
		{"plain", "cache_limit", ModelEvalOptions{Data: mine.Data, CacheLimit: "x"}},
		{"run", "cache_limit", ModelEvalOptions{CacheLimit: "x"}},
		{"plain", "does not exist", ModelEvalOptions{Data: mine.Data, Baseline: true, TrainData: []string{"/gone"}}},
		{"plain", "baseline: found", ModelEvalOptions{Data: mine.Data, Baseline: true, TrainData: []string{
			path("lines.jsonl")}}},
	} {
		if k.names == "ruined" {
			toymodel.Ruin(models["ruined"].Net)
		}
		e, _ := toys(t, k.o, models)
		var dirs []string
		for _, name := range strings.Fields(k.names) {
			dirs = append(dirs, cmp.Or(folders[name], filepath.Join(root, name)))
		}
		if _, err := e.Run(t.Context(), dirs); err == nil || !strings.Contains(err.Error(), k.want) ||
			strings.HasPrefix(err.Error(), dirs[0]+": ") {
			t.Errorf("%s %+v: %v, want %q", k.names, k.o, err, k.want)
		}
	}
	for _, k := range []struct {
		names, notes string
		o            ModelEvalOptions
	}{
		{"run run", "", ModelEvalOptions{}}, {"run plain", "", ModelEvalOptions{}}, {"run half", "half other",
			ModelEvalOptions{}}, {"run other", "other other", ModelEvalOptions{}}, {"run valid", "valid other",
			ModelEvalOptions{}}, {"run other", "", mine}, {"plain other", "", mine},
		{"run wide", "tokenizers", ModelEvalOptions{}}, {"plain wide", "tokenizers", mine},
		{"plain wide", "tokenizers", ModelEvalOptions{Data: []string{path("two.txt")}, ValidFraction: 0.5}},
		{"wide plain", "tokenizers", ModelEvalOptions{Data: mine.Data, ValidFraction: 0.5}},
		{"plain wide", "tokenizers", ModelEvalOptions{Data: []string{path("lines.jsonl")}}},
		{"plain other", "empty", ModelEvalOptions{Data: []string{path("sub")}}},
	} {
		e, notes := toys(t, k.o, models)
		var dirs []string
		for _, name := range strings.Fields(k.names) {
			dirs = append(dirs, folders[name])
		}
		all, err := e.Run(t.Context(), dirs)
		if err != nil {
			t.Errorf("%s: %v", k.names, err)
			continue
		}
		said := ""
		for _, note := range *notes {
			switch {
			case strings.HasSuffix(note,
				" was trained on other text than the first model: it may have learnt from what it "+
					"is measured on"):
				said += filepath.Base(strings.Fields(note)[0]) + " other"
			case strings.HasPrefix(note, "the models have different tokenizers"):
				said += "tokenizers"
			case strings.Contains(note, "empty.txt"):
				said += "empty"
			default:
				said += note
			}
		}
		if said != k.notes || len(all) != 2 || all[0].BitsByte > all[1].BitsByte || all[0].Text != all[1].Text ||
			all[0].Bytes != all[1].Bytes {
			t.Errorf("%s: notes %q, %+v, %+v", k.names, said, all[0], all[1])
		}
	}
	for documents, apart := range map[string]bool{"": true, documentsJoin: false, documentsApart: true} {
		texts := &evalTexts{opt: ModelEvalOptions{Data: []string{path("lines.jsonl")}, Documents: documents,
			Cache: data.CacheNone}}
		if err := texts.open(t.Context(), bytesTok); err != nil || texts.valid.IsApart() != apart {
			t.Errorf("documents %q are apart: %v, %v", documents, !apart, err)
		}
		if err := texts.close(); err != nil {
			t.Error(err)
		}
	}
	e, notes := toys(t, ModelEvalOptions{}, models)
	if _, _, err := e.open(t.Context(), folders["run"], &evalTexts{}, bytesTok); err != nil || len(*notes) > 0 {
		t.Errorf("%v, notes %q of a text that is of no run", err, *notes)
	}
	whole := &evalTexts{opt: ModelEvalOptions{ValidFraction: 0.5}}
	if err := whole.check(); err != nil {
		t.Errorf("a part of the text that comes with hippo: %v", err)
	}
	whole.opt = ModelEvalOptions{Cache: data.CacheNone}
	if err := whole.open(t.Context(), bytesTok); err != nil || whole.valid.Len() < 1e6 || whole.train != nil {
		t.Errorf("the text that comes with hippo: %+v, %v", whole, err)
	}
	if err := whole.close(); err != nil {
		t.Error(err)
	}
	run := small(t)
	run.Data, run.ValidFraction = []string{jsonl(t, map[string]any{"messages": []map[string]string{{"role": "user",
		"content": "Q"}, {"role": "assistant", "content": "A"}}}, map[string]string{"prompt": "q",
		"completion": "a"})}, 0.5
	cache := t.TempDir()
	asked := &evalTexts{run: run, opt: ModelEvalOptions{Documents: documentsJoin, Cache: cache},
		chat: map[string][]byte{
			"chat_template.jinja": []byte(chatML), "tokenizer_config.json": []byte(chatMLConfig)}}
	if d, err := asked.openRun(t.Context(), bytesTok); err != nil || d.Train.IsApart() || len(asked.closers) != 1 {
		t.Errorf("chats of a run: %v", err)
	}
	if err := asked.close(); err != nil {
		t.Error(err)
	}
	if files, err := filepath.Glob(filepath.Join(cache, "*.tok")); err != nil || len(files) != 1 {
		t.Errorf("the cache has the token files %q, %v", files, err)
	}
	short := toymodel.Fresh(t, func(c *model.Config) { c.VocabSize, c.Layers, c.MaxPositions = 256, "h3", 10 })
	models["plain"] = &LoadedModel{"plain", short, bytesTok}
	e, _ = toys(t, mine, models)
	if all, err := e.Run(t.Context(), []string{folders["plain"]}); err != nil || all[0].SeqLen != 10 {
		t.Errorf("%+v, %v, want windows of the positions that it has", all, err)
	}
	e, _ = toys(t, ModelEvalOptions{Data: []string{path("lines.jsonl")}, Documents: documentsJoin, Stream: true},
		models)
	models["plain"].Net = toymodel.New(t, "h3", 256)
	joined, err := e.Run(t.Context(), []string{folders["plain"]})
	if err != nil || !joined[0].Stream || joined[0].Words < 1 {
		t.Fatal(joined, err)
	}
	e.Options.Documents = ""
	if apart, err := e.Run(t.Context(), []string{folders["plain"]}); err != nil || apart[0].Loss == joined[0].Loss {
		t.Errorf("documents joined or apart have one loss: %v", err)
	}
}
