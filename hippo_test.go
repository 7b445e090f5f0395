package hippo_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train/text"
)

// temp is a folder for tests and examples, which TestMain creates. whale is a folder in it that holds a hybrid trained
// on two sentences.
var temp, whale string

func TestMain(m *testing.M) {
	var err error
	if temp, err = os.MkdirTemp("", "hippo-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	whale = filepath.Join(temp, "whale")
	status := 1
	if err := trainWhale(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		status = m.Run()
	}
	os.RemoveAll(temp)
	os.Exit(status)
}

func trainWhale() error {
	text := filepath.Join(temp, "whale.txt")
	sea := strings.Repeat("the whale swims in the sea. the sailor waits. ", 100)
	if err := os.WriteFile(text, []byte(sea), 0o666); err != nil {
		return err
	}
	cfg, err := hippo.Preset("tiny")
	if err != nil {
		return err
	}
	cfg.Data, cfg.Out, cfg.Cache, cfg.Tokenizer = []string{text}, whale, "none", "chars"
	cfg.Model.Layers, cfg.Model.DModel, cfg.Model.DState, cfg.Model.NumHeads = "h3,attention", 32, 16, 2
	cfg.Train.Steps, cfg.Train.BatchSize, cfg.Train.SeqLen, cfg.Train.SampleEvery = 150, 4, 96, 0
	cfg.Optim.LR, cfg.Optim.Warmup = 0.01, 5
	_, err = hippo.Train(context.Background(), cfg, hippo.TrainEvents{})
	return err
}

func load(t *testing.T) *hippo.Model {
	t.Helper()
	m, err := hippo.Load(whale)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// greedy returns options without randomness.
func greedy(tokens int) hippo.Options {
	o := hippo.DefaultOptions()
	o.Temperature, o.MaxTokens = 0, tokens
	return o
}

// write returns the text that a session generates after prompt.
func write(t *testing.T, s *hippo.Session, prompt string, o hippo.Options) string {
	t.Helper()
	var text strings.Builder
	for piece, err := range s.Generate(context.Background(), prompt, o) {
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(piece)
	}
	return text.String()
}

// TestGenerateDoesNotDependOnCuts checks that the generated text depends neither on the chunks and calls in which a
// text is read nor on the number of calls that generate it.
func TestGenerateDoesNotDependOnCuts(t *testing.T) {
	m := load(t)
	const prompt = "the sailor waits. the wh"
	want := write(t, m.NewSession(), prompt, greedy(40))
	if len(want) != 40 {
		t.Fatalf("got %d characters, want 40: %q", len(want), want)
	}
	for _, chunk := range []int{1, 3, 100} {
		s := m.NewSession()
		s.SetChunk(chunk)
		if got := write(t, s, prompt, greedy(40)); got != want {
			t.Errorf("in chunks of %d: got %q, want %q", chunk, got, want)
		}
	}
	s := m.NewSession()
	for _, part := range []string{prompt[:5], "", prompt[5:]} {
		if err := s.Append(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	got := write(t, s, "", greedy(15)) + write(t, s, "", greedy(25))
	if got != want {
		t.Errorf("read in three parts, written in two: got %q, want %q", got, want)
	}
	s = m.NewSession()
	got = ""
	for piece, err := range s.Generate(context.Background(), prompt, greedy(40)) {
		if err != nil {
			t.Fatal(err)
		}
		if got += piece; len(got) >= 7 {
			break
		}
	}
	if got += write(t, s, "", greedy(40-len(got))); got != want {
		t.Errorf("after a break: got %q, want %q", got, want)
	}
}

// TestForksAreIndependent checks that text that a fork reads or writes changes neither another fork nor the original
// session.
func TestForksAreIndependent(t *testing.T) {
	m := load(t)
	s := m.NewSession()
	if err := s.Append(t.Context(), "the wh"); err != nil {
		t.Fatal(err)
	}
	a, b := s.Fork(), s.Fork()
	want := write(t, a, "", greedy(20))
	if err := b.Append(t.Context(), "the sailor waits. the sa"); err != nil {
		t.Fatal(err)
	}
	other := write(t, b, "", greedy(20))
	if got := write(t, s, "", greedy(20)); got != want || got == other {
		t.Errorf("got %q, want %q, and not %q", got, want, other)
	}
	if got, want := write(t, a, "", greedy(5)), write(t, s, "", greedy(5)); got != want {
		t.Errorf("further on: got %q, want %q", got, want)
	}
}

// TestSamples checks that sample i with seed s is the text that a session writes with seed s+i, also with a repetition
// penalty, and that the session stays at the end of the prompt.
func TestSamples(t *testing.T) {
	m := load(t)
	o := hippo.DefaultOptions()
	o.Temperature, o.Seed, o.MaxTokens, o.RepetitionPenalty = 1.5, 3, 30, 1.2
	got := make([]string, 4)
	s := m.NewSession()
	err := s.Samples(context.Background(), "the whale", len(got), o, func(p generate.Piece) error {
		got[p.Sample] += string(p.Text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if stats := s.Stats(); stats.PrefillTokens != 9 || stats.DecodeTokens != 4*29 {
		t.Errorf("stats: got %+v, want 9 tokens read and 4·29 decoded", stats)
	}
	for i := range got {
		one := o
		one.Seed += uint64(i)
		if want := write(t, m.NewSession(), "the whale", one); got[i] != want {
			t.Errorf("sample %d: got %q, want %q", i, got[i], want)
		}
	}
	if got[0] == got[1] {
		t.Errorf("two samples are both %q", got[0])
	}
	if got, want := write(t, s, "", greedy(20)), write(t, m.NewSession(), "the whale", greedy(20)); got != want {
		t.Errorf("the session afterwards: got %q, want it behind the prompt: %q", got, want)
	}
	failed := errors.New("reader went away")
	err = s.Samples(context.Background(), " ", 2, o, func(generate.Piece) error { return failed })
	if !errors.Is(err, failed) {
		t.Errorf("got %v, want the error of emit", err)
	}
}

// TestGenerateEnds checks that Generate ends at a stop string, when its context is canceled and after an error.
func TestGenerateEnds(t *testing.T) {
	m := load(t)
	o := greedy(1000)
	o.Stop = []string{"sea"}
	if got, want := write(t, m.NewSession(), "the whale", o), " swims in the "; got != want {
		t.Errorf("stop string: got %q, want %q", got, want)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pieces := 0
	var last error
	for _, err := range m.NewSession().Generate(ctx, "the whale", greedy(1000)) {
		if pieces++; pieces == 5 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) || pieces != 6 {
		t.Errorf("context: got %v after %d pieces, want %v as the sixth", last, pieces, context.Canceled)
	}

	for prompt, want := range map[string]string{"": "nothing has been fed", "the Whale": "character 'W'"} {
		pieces, last = 0, nil
		for _, err := range m.NewSession().Generate(context.Background(), prompt, greedy(10)) {
			pieces, last = pieces+1, err
		}
		if last == nil || !strings.Contains(last.Error(), want) || pieces != 1 {
			t.Errorf("prompt %q: got %v as the last of %d pairs, want %q alone", prompt, last, pieces, want)
		}
	}
	bad := greedy(10)
	bad.TopP = 2
	for _, err := range m.NewSession().Generate(context.Background(), "the", bad) {
		if err == nil || !strings.Contains(err.Error(), "top_p") {
			t.Errorf("got %v, want an error about top_p", err)
		}
	}
}

// TestModelIsShared checks that sessions of several goroutines that share a model write the same text as each would
// alone.
func TestModelIsShared(t *testing.T) {
	m := load(t)
	want := write(t, m.NewSession(), "the sailor", greedy(30))
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			text := ""
			for piece, err := range m.NewSession().Generate(context.Background(), "the sailor", greedy(30)) {
				if err != nil {
					t.Error(err)
				}
				text += piece
			}
			if text != want {
				t.Errorf("got %q, want %q", text, want)
			}
		})
	}
	wait.Wait()
}

// TestSessionTellsItsSize checks that the state has a size from the start and grows only in attention layers, and that
// Stats count tokens.
func TestSessionTellsItsSize(t *testing.T) {
	m := load(t)
	s := m.NewSession()
	empty := s.StateSize()
	if err := s.Append(t.Context(), "the whale "); err != nil {
		t.Fatal(err)
	}
	ten := s.StateSize()
	write(t, s, "", greedy(11)) // the last token has not been read
	twenty := s.StateSize()
	const keysAndValues = 2 * 4 * 32 // bytes of one position of the attention layer
	if empty == 0 || ten-empty != 10*keysAndValues || twenty-ten != 10*keysAndValues {
		t.Errorf("got %d, %d, %d bytes after 0, 10, 20 tokens, want %d more each", empty, ten, twenty, 10*keysAndValues)
	}
	if st := s.Stats(); st.PrefillTokens != 10 || st.DecodeTokens != 10 || st.StateBytes != twenty {
		t.Errorf("stats: %+v, want 10 tokens each and %d bytes", st, twenty)
	}
}

// TestEmbedNeedsTokens checks that Embed returns an error that names a text without tokens.
func TestEmbedNeedsTokens(t *testing.T) {
	if _, err := load(t).Embed(t.Context(), "the whale", ""); err == nil || err.Error() !=
		"text 1: found no tokens, want one or more" {
		t.Errorf("got %v", err)
	}
}

// TestLoadChecksTheTokenizer checks that Load refuses a tokenizer that the model was not trained with.
func TestLoadChecksTheTokenizer(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(whale, "best"))); err != nil {
		t.Fatal(err)
	}
	m, err := hippo.Load(dir)
	if err != nil || m.Dir() != dir || m.Tokenizer().Kind() != "chars" ||
		m.Net().Config.VocabSize != m.Tokenizer().VocabSize() {
		t.Fatalf("got %v, %v", m, err)
	}
	if err := tokenizer.Bytes().Save(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := hippo.Load(dir); err == nil || !strings.Contains(err.Error(), "found the bytes tokenizer") {
		t.Errorf("another tokenizer: got %v", err)
	}
	if err := os.Remove(filepath.Join(dir, tokenizer.FileName)); err != nil {
		t.Fatal(err)
	}
	if _, err := hippo.Load(dir); err == nil || !strings.Contains(err.Error(), "found no tokenizer.json") {
		t.Errorf("no tokenizer: got %v", err)
	}
	if _, err := hippo.Load(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: got %v", err)
	}
}

// TestGenerateEndsWithTheModelsTokens checks that texts and samples end at the tokens that generation_config.json or
// tokenizer_config.json names, unless IgnoreEnd is set.
func TestGenerateEndsWithTheModelsTokens(t *testing.T) {
	m, dir := load(t), t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	whole := write(t, m.NewSession(), "the whale", greedy(40))
	want, _, cut := strings.Cut(whole, ".")
	ids, err := m.Tokenizer().Encode(nil, []byte("."))
	if err != nil || !cut {
		t.Fatalf("%q, %v", whole, err)
	}
	for file, text := range map[string]string{
		"generation_config.json": fmt.Sprintf(`{"eos_token_id": [%d]}`, ids[0]),
		"tokenizer_config.json":  `{"eos_token": "."}`,
	} {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		ends, err := hippo.Load(dir)
		if err != nil || !slices.Equal(ends.EndIDs(), ids) {
			t.Fatalf("%s: %v, want %v: %v", file, ends.EndIDs(), ids, err)
		}
		if got := write(t, ends.NewSession(), "the whale", greedy(40)); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
		var sample strings.Builder
		err = ends.NewSession().Samples(context.Background(), "the whale", 1, greedy(40), func(p generate.Piece) error {
			sample.Write(p.Text)
			return nil
		})
		if err != nil || sample.String() != want {
			t.Errorf("%s: the sample %q, want %q: %v", file, &sample, want, err)
		}
		on := greedy(40)
		on.IgnoreEnd = true
		if got := write(t, ends.NewSession(), "the whale", on); got != whole {
			t.Errorf("%s: got %q beyond the end, want %q", file, got, whole)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	bad := filepath.Join(dir, "generation_config.json")
	if err := os.WriteFile(bad, []byte(`{"eos_token_id": 4000}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := hippo.Load(dir); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("an end that is no token: %v", err)
	}
}

// TestPrecisions checks that a model with rounded weights still writes the text it has learned, predicts other
// sentences about as well, and cannot be saved.
func TestPrecisions(t *testing.T) {
	ids, err := load(t).Tokenizer().Encode(nil,
		[]byte(strings.Repeat("the sailor swims in the whale. the sea waits in the sailor. ", 8)))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := data.FromIDs(ids, load(t).Tokenizer().VocabSize())
	if err != nil {
		t.Fatal(err)
	}
	loss := func(m *hippo.Model) float64 {
		r, err := text.Evaluate(context.Background(), m.Net(), tokens, text.EvalOptions{SeqLen: 60, BatchSize: 4})
		if err != nil {
			t.Fatal(err)
		}
		return r.Loss
	}
	want, wantText := loss(load(t)), write(t, load(t).NewSession(), "the whale", greedy(60))
	for name, tol := range map[string]float64{
		"float32": 0, hippo.Stored: 0, "bf16": 0.01, "int8": 0.01, "int4": 0.03, "int4min": 0.03,
	} {
		m, err := hippo.Load(whale, hippo.Precision(name))
		if err != nil {
			t.Fatal(err)
		}
		got := loss(m)
		if math.Abs(got-want) > tol*want || (got == want) != (tol == 0) {
			t.Errorf("%s: loss %v, want %v and at most %v of it off", name, got, want, tol)
		}
		if got := write(t, m.NewSession(), "the whale", greedy(60)); got != wantText {
			t.Errorf("%s: wrote %q, want %q", name, got, wantText)
		}
		err = m.Save(filepath.Join(t.TempDir(), "copy"))
		if err == nil || !strings.Contains(err.Error(), "packed for inference") {
			t.Errorf("%s: saved: %v", name, err)
		}
	}
	_, err = hippo.Load(whale, hippo.Precision("int3"))
	const want3 = `found the precision "int3", want one of float32, bf16, int8, int4, int4min, or stored`
	if err == nil || err.Error() != want3 {
		t.Errorf("int3: %v", err)
	}
}

// TestLoadNothing checks that the error for a path that does not exist names the path and what is wanted instead.
func TestLoadNothing(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "none.gguf")} {
		_, err := hippo.Load(path)
		want := "found no model at " + path + ", want its folder"
		if !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
}
