package text

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// ModelEvalOptions define on which text trained models are measured, and how.
type ModelEvalOptions struct {
	Data []string `json:"data" help:"text to measure on: files, folders, globs or -; empty: see above"`

	ValidFraction float64 `json:"valid_fraction" min:"0" max:"0.999" help:"measure on this last fraction only; 0: all"`

	TextField  string `json:"text_field" help:"text field of a JSONL line"`
	Documents  string `json:"documents" enum:",apart,join" help:"as in training; empty: as in the run, or apart"`
	Cache      string `json:"cache" help:"folder of tokenized data; empty: the user's cache; none: memory"`
	CacheLimit string `json:"cache_limit" help:"size limit of the cache, such as 20GB; empty: see hippo train"`

	Stream    bool `json:"stream" help:"carry the state through the whole text, in place of separate windows"`
	Keep      int  `json:"keep" min:"0" help:"with --stream, positions before the chunk that attention sees; 0: all"`
	SeqLen    int  `json:"seq_len" min:"0" help:"tokens of a window or (--stream) chunk; 0: as trained, or up to 1024"`
	BatchSize int  `json:"batch_size" min:"1" help:"windows computed together"`

	Positions int `json:"positions" min:"0" help:"also losses by position in the window: to N, 2N, 4N ...; 0: not"`

	Per string `json:"per" help:"tokenizer whose tokens one more perplexity is per: gpt2 or a tokenizer.json"`

	Drift int `json:"drift" min:"0" help:"compare other DIRs with the first along this many tokens of one text"`

	Baseline  bool     `json:"baseline" help:"also measure unigrams and bigrams of the training text"`
	TrainData []string `json:"train_data" help:"training text of the baseline; empty: see above"`
}

// defaultSeqLen is the window for a model without a training run: half the training length of the releases.
const defaultSeqLen = 1024

// ModelEval measures trained models on a text.
type ModelEval struct {
	Options ModelEvalOptions
	Load    func(dir string) (*LoadedModel, error) // nil for LoadRun
	Note    func(text string)                      // shows a text to the user; may be nil
	// Progress is called before a model is measured. update is then called with the number of tokens done, and end when
	// all are. Progress may be nil.
	Progress func() (update func(done, total int), end func())
}

// LoadedModel is a trained model with the folder in which it was found.
type LoadedModel struct {
	Dir       string
	Net       *model.Model
	Tokenizer tokenizer.Tokenizer
}

// LoadRun reads the best model of a training run, or else its last, with its tokenizer.
func LoadRun(dir string) (*LoadedModel, error) {
	m, at, err := release.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	tok, err := RunTokenizer(dir)
	return &LoadedModel{Dir: at, Net: m, Tokenizer: tok}, err
}

// ModelReport describes how well a trained model predicts a text.
type ModelReport struct {
	Model  string `json:"model"`
	Params int    `json:"params"`
	Text   string `json:"text"`
	Stream bool   `json:"stream"`
	SeqLen int    `json:"seq_len"`

	Tokenizer string `json:"-"` // kind, for tables of several models
	EvalResult
	Words        int            `json:"words"`           // separated by white space
	WordPerplex  float64        `json:"word_perplexity"` // e^(loss·tokens/words)
	Per          *PerToken      `json:"per,omitempty"`
	TokensPerSec float64        `json:"tokens_per_s"`
	Reads        *Reads         `json:"attention_reads,omitempty"` // for layers that prune
	Baseline     *data.Baseline `json:"baseline,omitempty"`
	CountedIn    int            `json:"baseline_train_tokens,omitempty"`
}

// PerToken is the perplexity per token of another tokenizer, e^(loss·tokens/count). It allows comparing models of
// different tokenizers, such as a model of bytes with published ones.
type PerToken struct {
	Tokenizer  string  `json:"tokenizer"`
	Count      int     `json:"count"` // number of its tokens in the predicted text
	Perplexity float64 `json:"perplexity"`
}

// Reads holds how much layers of spatten read, as fractions of what attention to all earlier positions in all heads
// reads.
type Reads struct {
	Keys    float64 `json:"keys"`
	KeyBits float64 `json:"key_bits"` // the same by bits, as lower bits are read for some queries only
	Values  float64 `json:"values"`
}

// readsOf converts counts to Reads. It returns nil if the engine has counted nothing.
func readsOf(c *engine.SpAttenCounts) *Reads {
	all, keys := float64(c.All.Load()), float64(c.Keys.Load())
	if all == 0 {
		return nil
	}
	bits := keys - float64(c.High.Load()-c.Low.Load())/2
	return &Reads{Keys: keys / all, KeyBits: bits / all, Values: float64(c.Values.Load()) / all}
}

// Run measures the models in dirs, one after the other, on the text for the first one. It returns their reports sorted
// by bits per byte, the lowest first.
func (e *ModelEval) Run(ctx context.Context, dirs []string) (reports []*ModelReport, err error) {
	if e.Load == nil {
		e.Load = LoadRun
	}
	if e.Note == nil {
		e.Note = func(string) {}
	}
	if e.Progress == nil {
		e.Progress = func() (func(done, total int), func()) { return nil, func() {} }
	}
	var first *evalTexts
	defer func() {
		if first != nil {
			err = errors.Join(err, first.close())
		}
	}()
	var tok tokenizer.Tokenizer // tokenizer of the first model
	others := 0
	for _, dir := range dirs {
		m, texts, err := e.open(ctx, dir, first, tok)
		if err != nil {
			if len(dirs) > 1 {
				err = fmt.Errorf("%s: %w", dir, err)
			}
			return nil, err
		}
		if first == nil {
			first, tok = texts, m.Tokenizer
		}
		r, err := e.measure(ctx, texts, m, dir)
		if texts != first {
			others++
			err = errors.Join(err, texts.close())
		}
		if err != nil {
			return nil, err
		}
		r.Text = first.name
		reports = append(reports, r)
	}
	if others > 0 {
		e.Note("the models have different tokenizers: losses and perplexities are of different tokens; " +
			"bits per byte and the perplexity per word compare them")
	}
	slices.SortStableFunc(reports, func(a, b *ModelReport) int { return cmp.Compare(a.BitsByte, b.BitsByte) })
	return reports, nil
}

// open reads a model and the text to measure it on. If first is not nil, this is the text of the first model, as tokens
// of this model's tokenizer. tok is the first model's tokenizer.
func (e *ModelEval) open(ctx context.Context, dir string, first *evalTexts,
	tok tokenizer.Tokenizer) (*LoadedModel, *evalTexts, error) {
	run, out, err := RunOf(dir)
	if err != nil {
		return nil, nil, err
	}
	if first == nil {
		texts := &evalTexts{opt: e.Options, run: run, isRun: out != ""}
		if err := texts.check(); err != nil {
			return nil, nil, err
		}
		m, err := e.Load(dir)
		if err == nil {
			texts.chat, err = release.ChatTexts(m.Dir)
		}
		if err == nil {
			err = texts.open(ctx, m.Tokenizer)
		}
		return m, texts, err
	}
	m, err := e.Load(dir)
	if err != nil {
		return nil, nil, err
	}
	if first.isRun && len(e.Options.Data) == 0 && out != "" {
		a, b := first.run, run
		if !slices.Equal(a.Data, b.Data) || !slices.Equal(a.Valid, b.Valid) || a.ValidFraction != b.ValidFraction {
			e.Note(dir + " was trained on other text than the first model: " +
				"it may have learnt from what it is measured on")
		}
	}
	if m.Tokenizer.Fingerprint() == tok.Fingerprint() {
		return m, first, nil
	}
	texts, err := first.in(ctx, tok, m.Tokenizer)
	return m, texts, err
}

// measure measures the model in dir on the text.
func (e *ModelEval) measure(ctx context.Context, texts *evalTexts, m *LoadedModel, dir string) (*ModelReport, error) {
	for _, note := range texts.notes {
		e.Note(note)
	}
	texts.notes = nil
	opt := &texts.opt
	run, out, err := RunOf(dir)
	if err != nil {
		return nil, err
	}
	r := &ModelReport{
		Model: m.Dir, Params: m.Net.NumParams(), Tokenizer: m.Tokenizer.Kind(), Text: texts.name, Stream: opt.Stream,
		SeqLen: opt.SeqLen,
	}
	if r.SeqLen == 0 {
		r.SeqLen = defaultSeqLen
		if out != "" {
			r.SeqLen = run.Train.SeqLen
		}
		if most := m.Net.MaxLength(); most > 0 {
			r.SeqLen = min(r.SeqLen, most)
		}
	}
	counts := &engine.SpAttenCounts{}
	if m.Net.CountReads(counts) {
		defer m.Net.CountReads(nil)
	}
	update, end := e.Progress()
	r.EvalResult, err = Evaluate(ctx, m.Net, texts.valid, EvalOptions{
		SeqLen: r.SeqLen, BatchSize: opt.BatchSize, Stream: opt.Stream, Keep: opt.Keep, Positions: opt.Positions,
		Progress: update,
	})
	end()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", texts.name, err)
	}
	if math.IsNaN(r.Loss) || math.IsInf(r.Loss, 0) {
		return nil, fmt.Errorf("%s: found the loss %v, want a finite one: the weights are ruined", r.Model, r.Loss)
	}
	r.Reads = readsOf(counts)
	r.TokensPerSec = float64(r.Tokens) / max(r.Seconds, 1e-9)
	if r.Words, err = texts.valid.Slice(1, texts.valid.Len()).Words(m.Tokenizer); err != nil {
		return nil, err
	}
	r.WordPerplex = r.PerWord(r.Words)
	if opt.Per != "" {
		n, err := texts.count(ctx, m.Tokenizer, opt.Per)
		if err != nil {
			return nil, err
		}
		r.Per = &PerToken{opt.Per, n, r.PerWord(n)}
	}
	if opt.Baseline {
		if texts.baseline == nil {
			b, err := data.NGramBaseline(ctx, texts.train, texts.valid, m.Tokenizer.VocabSize())
			if err != nil {
				return nil, err
			}
			texts.baseline = &b
		}
		r.Baseline, r.CountedIn = texts.baseline, texts.train.Len()
	}
	return r, nil
}
