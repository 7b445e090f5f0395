// Package hippo runs and trains state-space sequence models: H3 ("Hungry Hungry Hippos", arXiv:2212.14052), its hybrids
// with attention, and their relatives. It is a small interface for programs that embed a model. Such a program can
//
//   - load a model with Load, open a Session and generate text,
//   - train a model with Train,
//   - fit a network to a table or a signal with Fit and use it through a Predictor.
//
// The packages below this one offer everything else.
//
// Any number of goroutines may share a Model, each with its own Session.
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
	adapter string // folder of the adapter, or ""
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
	faster    func(told string) // not nil if on is used only if it is faster; see OnFaster
}

// TokenIDs makes Load ignore the model's tokenizer, which may be missing. Texts are then token ids: "17 4 98".
func TokenIDs() LoadOption {
	return func(o *loadOptions) error {
		o.ids = true
		return nil
	}
}

// Stored is the name of the precision that keeps bfloat16 and integer weights as stored and converts all others to
// float32.
const Stored = "stored"

// Precision packs a model for inference. The name is float32, bf16, int8, int4min or int4 (see engine.Precision), or
// Stored. A packed model generates faster, but can be neither trained nor saved. float32 changes no result. Nor does
// Stored if the weights are stored as floating-point numbers.
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

// StatePrecision sets the precision of the states of sequences: float32, or bf16 for the states of Mamba-2 layers. See
// model.Backbone.SetStatePrecision.
func StatePrecision(name string) LoadOption {
	return func(o *loadOptions) (err error) {
		if o.states, err = engine.ParsePrecision(name); err != nil || o.states > engine.BF16 {
			return fmt.Errorf("state precision: found %q, want float32 or bf16", name)
		}
		return nil
	}
}

// On moves the model to an engine, such as that of a graphics card; nil stands for the processor's engine. The model
// may take up to three quarters of the memory that the card reports as free. Layers that do not fit stay on the
// processor: see model.Parameters.UseWithin.
func On(b engine.Backend) LoadOption {
	return func(o *loadOptions) error {
		o.on = b
		return nil
	}
}

// OnFaster measures whether a layer of the model decodes faster on the engine than on the processor, and calls told
// with a description of the result. If the engine is faster, OnFaster acts as On. Otherwise the model stays on the
// processor.
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

// Load reads a model from a folder that hippo convert or Model.Save wrote, from a .gguf file, or from the folder of a
// training run, of which it takes the best checkpoint. A model with GPT-2's vocabulary and no tokenizer.json gets
// GPT-2's tokenizer. If dir holds an adapter, or a run that trained one, Load also reads the adapter's base model from
// its recorded folder.
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

// load reads the model in dir. It ignores the options for adapters, engines and states.
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

// endsOf returns the tokens that end a text according to the model's files in dir.
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

// Dir returns the folder that the model was read from. An adapter may be in another folder: see AdapterDir.
func (m *Model) Dir() string { return m.dir }

// EndIDs returns the tokens that end a text in addition to the tokenizer's end-of-text token. They come from the
// model's generation_config.json or tokenizer_config.json, or from its GGUF file. Generate and Samples stop at them.
func (m *Model) EndIDs() []int32 { return slices.Clone(m.ends) }

// ending returns o with the model's EndIDs added.
func (m *Model) ending(o Options) Options {
	o.EndIDs = slices.Concat(o.EndIDs, m.ends)
	return o
}

// Embed returns a vector of length 1 for each text: the mean of the hidden states after the model's final norm, divided
// by its Euclidean length. The dot product of two such vectors measures how similar the model finds the two texts.
// Texts are read in batches. A vector does not depend on the batch, to the bit. For other kinds of vectors see
// session.Embed.
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

// Options control how a text is continued. They are the options of package generate, which embed those of package
// generate/sample:
//
//	MaxTokens         int      // maximum number of tokens of a continuation
//	Stop              []string // stop strings: a continuation ends before the first of them that occurs
//	IgnoreEnd         bool     // continue after the end-of-text token
//	EndIDs            []int32  // further tokens that end a continuation, unless IgnoreEnd is set
//	StopIDs           []int32  // further tokens that end a continuation, even if IgnoreEnd is set
//	MinTokens         int      // minimum number of tokens of a continuation
//	Constraint        *constrain.Constraint // limits the text, for example to JSON of a schema; nil for no limit
//	BadWords          *constrain.Words // texts that must not be written; nil for none
//	AllowedIDs        []int32  // the only tokens that may be drawn; nil for all
//	Decoder           token.Tokenizer // decodes tokens in place of the model's tokenizer; nil for that one
//	IncludeStop       bool     // include the stop string that ended a continuation in it
//	Temperature       float64  // 0 always takes the most probable token, 1 follows the model, more is more varied
//	TopK              int      // draw from this many of the most probable tokens; 0 for all
//	TopP              float64  // draw from the most probable tokens with this total probability; 0 or 1 for all
//	MinP              float64  // exclude tokens below this fraction of the highest probability; 0 for none
//	RepetitionPenalty float64  // above 1 repeats less, below 1 more; 0 or 1 for no effect
//	RepetitionWindow  int      // number of last tokens that count as repeated; 0 for all
//	FrequencyPenalty  float64  // subtracted from a token's logit for each time it was drawn; 0 for no effect
//	PresencePenalty   float64  // subtracted once from the logit of a token that was drawn; 0 for no effect
//	LogitBias         map[int32]float32 // added to the logits of tokens
//	DRY               sample.DRY // penalizes tokens that would repeat a sequence
//	Seed              uint64   // seed of the random numbers: the same seed gives the same text
//	Draft             generate.Drafts // guesses the next tokens, to generate the same text faster: see Model.Draft
type Options = generate.Options

// DefaultOptions returns options for 200 tokens, each drawn from the 40 most probable ones at temperature 0.8. Seed is
// 0. Set another seed for another text.
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

// Preset returns the settings of the training run with a name, such as tiny, small or h3-125m.
func Preset(name string) (TrainConfig, error) { return text.Preset(name) }

// Train trains a model and saves it, with its tokenizer, curves and checkpoints, in the folder TrainResult.Out.
func Train(ctx context.Context, cfg TrainConfig, ev TrainEvents) (TrainResult, error) {
	return text.Run(ctx, cfg, ev)
}

// CPULevel returns the level of processor features in use: generic, avx2, avx512, avx512bf16, avx512bf16+amx, or one
// between those, such as avx2+vnni. It is the highest level that the machine has, or the level that the environment
// variable HIPPO_CPU names. If the machine lacks that level, CPULevel returns generic and an error that lists the
// available levels.
func CPULevel() (string, error) { return native.Level() }

// CPUKernels describes the code in use at this level, one line for each implementation with the operations that it
// computes: "products float32: AVX-512, tiles of 8x48".
func CPUKernels() []string { return native.Kernels() }
