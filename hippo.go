// Package hippo runs and trains state-space sequence models: H3 ("Hungry Hungry Hippos", arXiv:2212.14052), its hybrids
// with attention, and their relatives. It is the small interface for programs that embed a model: Load a model, open a
// Session and Generate text; Train a model; or Fit a network to a table or a signal and use it through a Predictor.
// Everything else is in the packages below it.
//
// A model may be shared by any number of goroutines, each with its own Session.
package hippo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/text"
)

// Model is a language model with its tokenizer.
type Model struct {
	net  *model.Model
	tok  tokenizer.Tokenizer
	dir  string
	ends []int32
	// weights returns the fingerprint of the weights in the files. It does not depend on the Precision.
	weights func() (string, error)
	adapter string // its folder, "" for none
}

// LoadOption is an option of Load.
type LoadOption func(*loadOptions) error

type loadOptions struct {
	precision *engine.Precision
	states    engine.Precision
	stored    bool
	ids       bool
	adapter   string
	on        engine.Backend
	faster    func(told string) // nil unless on is used only if it is faster
}

// TokenIDs makes the text of a model the ids of its tokens ("17 4 98"), for a model whose tokenizer is missing or is
// not to be read.
func TokenIDs() LoadOption {
	return func(o *loadOptions) error {
		o.ids = true
		return nil
	}
}

// Stored is the name of the precision that keeps bfloat16 and integer weights as stored and converts all others to
// float32.
const Stored = "stored"

// Precision packs a model for inference, with weights as float32, bf16, int8, int4min, int4 (see engine.Precision) or
// Stored. A packed model generates faster, but can be neither trained nor saved. float32 changes no result. Stored
// changes none either if the weights are floating-point numbers.
func Precision(name string) LoadOption {
	return func(o *loadOptions) error {
		if o.stored = name == Stored; o.stored {
			return nil
		}
		p, err := engine.ParsePrecision(name)
		if err != nil {
			err = fmt.Errorf("%w, or %s", err, Stored)
		}
		o.precision = &p
		return err
	}
}

// StatePrecision holds the states of sequences in float32 or, where they are those of Mamba-2, in bf16: see
// model.Backbone.SetStatePrecision.
func StatePrecision(name string) LoadOption {
	return func(o *loadOptions) (err error) {
		if o.states, err = engine.ParsePrecision(name); err != nil || o.states > engine.BF16 {
			return fmt.Errorf("state precision: found %q, want float32 or bf16", name)
		}
		return nil
	}
}

// On moves a model to an engine, such as that of a graphics card; nil is the processor's. Layers for which the card has
// no memory, in three quarters of what it says is free, stay on the processor: see model.Parameters.UseWithin.
func On(b engine.Backend) LoadOption {
	return func(o *loadOptions) error {
		o.on = b
		return nil
	}
}

// OnFaster is On if a layer of the model decodes faster there than on the processor. told is called with what was
// measured.
func OnFaster(b engine.Backend, told func(string)) LoadOption {
	return func(o *loadOptions) error {
		o.on, o.faster = b, told
		return nil
	}
}

// move moves a model to the engine of the options.
func (o *loadOptions) move(m *model.Model) error {
	if o.on == nil {
		return nil
	}
	if o.faster != nil {
		use, told, err := model.Faster(m.Config, m.Precision(), o.on, false)
		if err != nil {
			return err
		}
		if o.faster(told); !use {
			return nil
		}
	}
	if room, known := engine.Room(o.on); known {
		return m.UseWithin(o.on, int(room/4*3))
	}
	m.Use(o.on)
	return nil
}

// Load reads a model from a folder that hippo convert or Model.Save wrote, or from the folder of a training run, whose
// best checkpoint it takes. A model with GPT-2's vocabulary and no tokenizer.json gets GPT-2's tokenizer. If dir holds
// an adapter, or a run that trained one, Load also reads the adapter's base model from its recorded folder.
func Load(dir string, options ...LoadOption) (*Model, error) {
	var o loadOptions
	for _, option := range options {
		if err := option(&o); err != nil {
			return nil, err
		}
	}
	dir, err := o.findBase(dir)
	if err != nil {
		return nil, err
	}
	m, err := load(dir, &o)
	if err == nil && o.adapter != "" {
		err = m.attach(o.adapter)
	}
	if err == nil {
		err = o.move(m.net)
	}
	if err == nil {
		err = m.net.SetStatePrecision(o.states)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// load is Load for a folder with a model.
func load(dir string, o *loadOptions) (*Model, error) {
	load := release.LoadDir
	switch {
	case o.stored:
		load = release.LoadDirStored
	case o.precision != nil:
		load = func(dir string) (*model.Model, string, error) { return release.LoadDirPacked(dir, *o.precision) }
	}
	path := dir
	net, dir, err := load(path)
	if err != nil {
		if _, missing := os.Stat(path); errors.Is(missing, fs.ErrNotExist) {
			err = fmt.Errorf("found no model at %s, want its folder, that of a training run or a .gguf file: %w", path,
				err)
		}
		return nil, err
	}
	m := &Model{net: net, dir: dir, weights: sync.OnceValues(func() (string, error) {
		return release.FileFingerprint(dir)
	})}
	if o.ids {
		m.tok = tokenizer.IDs(net.Config.PaddedVocab())
		return m, nil
	}
	if m.tok, err = release.LoadTokenizer(dir, &net.Config); err != nil {
		return nil, err
	}
	if m.ends, err = endsOf(dir, m.tok); err != nil {
		return nil, err
	}
	return m, nil
}

// endsOf returns the tokens that end a text according to the files of the model in dir.
func endsOf(dir string, tok tokenizer.Tokenizer) ([]int32, error) {
	if release.IsGGUF(dir) {
		texts, err := release.ReadGGUFTexts(dir)
		return texts.EndIDs, err
	}
	return chat.EndIDs(dir, tok)
}

// Save writes the model and its tokenizer to dir, atomically. Load reads them back.
func (m *Model) Save(dir string) error {
	return checkpoint.WriteDirAtomic(dir, func(tmp string) error {
		return errors.Join(m.net.Save(tmp), m.tok.Save(tmp))
	})
}

// Net returns the network.
func (m *Model) Net() *model.Model { return m.net }

// Tokenizer returns the model's tokenizer.
func (m *Model) Tokenizer() tokenizer.Tokenizer { return m.tok }

// Dir returns the folder that the model was read from. Its adapter may have another: see AdapterDir.
func (m *Model) Dir() string { return m.dir }

// EndIDs returns the tokens that end a text in addition to the tokenizer's end of text. They come from the model's
// generation_config.json or from the values in its GGUF file. Generate and Samples stop at them.
func (m *Model) EndIDs() []int32 { return slices.Clone(m.ends) }

// ending adds the model's EndIDs to the options.
func (m *Model) ending(o Options) Options {
	o.EndIDs = slices.Concat(o.EndIDs, m.ends)
	return o
}

// Embed returns a vector of length 1 for each text: the mean of the hidden states after the model's final norm, divided
// by its length. The dot product of two such vectors measures how similar the model finds two texts. Texts are read in
// batches, and a vector has the same bits in any batch. For other vectors see session.Embed.
func (m *Model) Embed(ctx context.Context, texts ...string) ([][]float32, error) {
	before, _ := tokenizer.Affixes(m.tok)
	ids := make([][]int32, len(texts))
	for i, text := range texts {
		var err error
		if ids[i], err = m.tok.Encode(slices.Clip(before), []byte(text)); err != nil {
			return nil, fmt.Errorf("text %d: %w", i, err)
		}
		if len(ids[i]) == 0 {
			return nil, fmt.Errorf("text %d: found no tokens, want one or more", i)
		}
	}
	runner := session.NewScheduler(m.net, session.SchedulerOptions{})
	defer runner.Close()
	return session.Embed(ctx, m.net, session.EmbedOptions{Runner: runner}, ids...)
}

// NumParams returns the number of parameters.
func (m *Model) NumParams() int { return m.net.NumParams() }

// Options say how to continue a text. They are the options of package generate, which embed those of package
// generate/sample:
//
//	MaxTokens         int      // tokens of a continuation, at most
//	Stop              []string // texts before which a continuation ends; they are not part of it
//	IgnoreEnd         bool     // go on after the end-of-text token
//	EndIDs            []int32  // further tokens that end a continuation
//	StopIDs           []int32  // the same, even with IgnoreEnd
//	MinTokens         int      // tokens of a continuation before which nothing ends it
//	Constraint        *constrain.Constraint // what may be written, such as the JSON of a schema; nil for all
//	BadWords          *constrain.Words // what no tokens may spell; nil for nothing
//	AllowedIDs        []int32  // the only tokens that may be drawn; nil for all
//	Decoder           token.Tokenizer // makes texts of tokens in place of the model's tokenizer; nil for that
//	IncludeStop       bool     // the text that ends a continuation is part of it
//	Temperature       float64  // 0 always takes the most probable token, 1 follows the model, more is more varied
//	TopK              int      // choose among this many of the most probable tokens; 0 for all
//	TopP              float64  // choose among the most probable that together have this probability; 0 or 1 for all
//	MinP              float64  // leave out tokens less probable than this part of the most probable; 0 for none
//	RepetitionPenalty float64  // above 1 repeats less, below 1 more; 0 or 1 for no effect
//	RepetitionWindow  int      // how many of the last tokens count as repeated; 0 for all
//	FrequencyPenalty  float64  // lowers a token by this for each time it was drawn; 0 for no effect
//	PresencePenalty   float64  // lowers a token that was drawn by this, once; 0 for no effect
//	LogitBias         map[int32]float32 // is added to the logits of tokens
//	DRY               sample.DRY // lowers tokens that would repeat a sequence
//	Seed              uint64   // of the random numbers: the same seed, the same text
//	Draft             generate.Drafts // guesses what follows, to write the same text faster: see Model.Draft
type Options = generate.Options

// DefaultOptions returns options for 200 tokens at temperature 0.8, each among the 40 most probable. The seed is 0: set
// another for another text.
func DefaultOptions() Options { return generate.DefaultOptions() }

// TrainConfig holds all settings of a training run.
type TrainConfig = text.Config

// TrainEvents are callbacks during a training run.
type TrainEvents = train.Events

// TrainStart and TrainProgress are the arguments of TrainEvents.
type (
	TrainStart    = train.Start
	TrainProgress = train.Progress
)

// TrainResult is the outcome of a training run.
type TrainResult = text.Result

// Preset returns the settings of a training run by name: tiny, small, h3-125m, ...
func Preset(name string) (TrainConfig, error) { return text.Preset(name) }

// Train trains a model and saves it, with its tokenizer, curves and checkpoints, in the folder that the result names.
func Train(ctx context.Context, cfg TrainConfig, ev TrainEvents) (TrainResult, error) {
	return text.Run(ctx, cfg, ev)
}

// CPULevel names the processor features in use (generic, avx2, avx512, avx512bf16, avx512bf16+amx, or a level between
// those, such as avx2+vnni): the highest level that the machine has, or the one that the environment variable HIPPO_CPU
// names. If the machine lacks that level, the level is generic and the error lists the available ones.
func CPULevel() (string, error) { return native.Level() }

// CPUKernels says which code computes what with those features, a line for all work with the same code: "products
// float32: AVX-512, tiles of 8x48".
func CPUKernels() []string { return native.Kernels() }
