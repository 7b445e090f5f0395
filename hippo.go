// Package hippo runs and trains state-space sequence models: H3 ("Hungry Hungry Hippos", arXiv:2212.14052), its hybrids
// with attention, and their relatives. It is the small interface for programs that want a model inside: Load a model,
// open a Session, Generate text; or Train one; Fit a network to a table or a signal and let a Predictor speak.
// Everything else is in the packages below it.
//
// A model may be shared by any number of goroutines, each with a Session of its own.
package hippo

import (
	"context"
	"errors"
	"fmt"
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
	// weights is the fingerprint of the weights in the files, however they were rounded.
	weights func() (string, error)
	adapter string // its folder, "" for none
}

// LoadOption is an option of Load.
type LoadOption func(*loadOptions) error

type loadOptions struct {
	precision *engine.Precision
	stored    bool
	ids       bool
	adapter   string
}

// TokenIDs has the ids of tokens for text ("17 4 98"), for a model whose tokenizer is not there or not read.
func TokenIDs() LoadOption {
	return func(o *loadOptions) error {
		o.ids = true
		return nil
	}
}

// Stored is the name of the precision in which weights of bfloat16 and of integers stay as they are and all others are
// float32.
const Stored = "stored"

// Precision packs a model for inference, with weights as float32, bf16, int8, int4min or int4, see engine.Precision, or
// Stored: it then generates faster, and can neither be trained nor saved. float32 changes no result, nor does Stored of
// weights in floating point.
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

// Load reads a model from a folder: one that hippo convert or Model.Save made, or the folder of a training run, whose
// best checkpoint it takes. A folder without a tokenizer.json that has the vocabulary of GPT-2 gets GPT-2's tokenizer.
// Of an adapter, or of a run that trained one, it reads the model that it was made for, where that is said to be.
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
	if err != nil {
		return nil, err
	}
	return m, nil
}

// load is Load of a model itself.
func load(dir string, o *loadOptions) (*Model, error) {
	load := release.LoadDir
	switch {
	case o.stored:
		load = release.LoadDirStored
	case o.precision != nil:
		load = func(dir string) (*model.Model, string, error) { return release.LoadDirPacked(dir, *o.precision) }
	}
	net, dir, err := load(dir)
	if err != nil {
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

// endsOf are the tokens that end a text, as the files of the model in dir say.
func endsOf(dir string, tok tokenizer.Tokenizer) ([]int32, error) {
	if release.IsGGUF(dir) {
		texts, err := release.ReadGGUFTexts(dir)
		return texts.EndIDs, err
	}
	return chat.EndIDs(dir, tok)
}

// Save writes the model and its tokenizer to dir, from which Load reads it back: all of it or nothing.
func (m *Model) Save(dir string) error {
	return checkpoint.WriteDirAtomic(dir, func(tmp string) error {
		return errors.Join(m.net.Save(tmp), m.tok.Save(tmp))
	})
}

// Net is the network itself.
func (m *Model) Net() *model.Model { return m.net }

// Tokenizer is the model's tokenizer.
func (m *Model) Tokenizer() tokenizer.Tokenizer { return m.tok }

// Dir is the folder that the model was read from, without its adapter.
func (m *Model) Dir() string { return m.dir }

// EndIDs are the tokens that end a text besides the tokenizer's end of text, as the files of the model say: those of
// generation_config.json, or of the values in its GGUF file. Generate and Samples end with them.
func (m *Model) EndIDs() []int32 { return slices.Clone(m.ends) }

// ending has a text end with the tokens that the model says, too.
func (m *Model) ending(o Options) Options {
	o.EndIDs = slices.Concat(o.EndIDs, m.ends)
	return o
}

// Embed returns a vector of length 1 for each text: the mean of the hidden states after the model's final norm, divided
// by its length. The product of two of them, number by number, says how alike the model finds two texts. Texts are read
// side by side, and a vector is the same to the last bit whatever it is read with. For other vectors see session.Embed.
func (m *Model) Embed(ctx context.Context, texts ...string) ([][]float32, error) {
	before, _ := tokenizer.Affixes(m.tok)
	ids := make([][]int32, len(texts))
	for i, text := range texts {
		var err error
		if ids[i], err = m.tok.Encode(slices.Clip(before), []byte(text)); err != nil {
			return nil, fmt.Errorf("text %d: %w", i, err)
		}
	}
	runner := session.NewScheduler(m.net, session.SchedulerOptions{})
	defer runner.Close()
	return session.Embed(ctx, m.net, session.EmbedOptions{Runner: runner}, ids...)
}

// NumParams is the number of parameters.
func (m *Model) NumParams() int { return m.net.NumParams() }

// Options say how to continue a text. They are those of package generate, with those of package generate/sample inside:
//
//	MaxTokens         int      // tokens of a continuation, at most
//	Stop              []string // texts before which a continuation ends; they are not part of it
//	IgnoreEnd         bool     // go on after the end-of-text token
//	EndIDs            []int32  // further tokens that end a continuation
//	Constraint        *constrain.Constraint // what may be written, such as the JSON of a schema; nil for all
//	Temperature       float64  // 0 always takes the most probable token, 1 follows the model, more is more varied
//	TopK              int      // choose among this many of the most probable tokens; 0 for all
//	TopP              float64  // choose among the most probable that together have this probability; 0 or 1 for all
//	MinP              float64  // leave out tokens less probable than this part of the most probable; 0 for none
//	RepetitionPenalty float64  // above 1 repeats less, below 1 more; 0 or 1 for no effect
//	RepetitionWindow  int      // how many of the last tokens count as repeated; 0 for all
//	FrequencyPenalty  float64  // lowers a token by this for each time it was drawn; 0 for no effect
//	PresencePenalty   float64  // lowers a token that was drawn by this, once; 0 for no effect
//	LogitBias         map[int32]float32 // is added to the logits of tokens
//	Seed              uint64   // of the random numbers: the same seed, the same text
type Options = generate.Options

// DefaultOptions are 200 tokens at temperature 0.8 among the 40 most probable. The seed is 0: set another for another
// text.
func DefaultOptions() Options { return generate.DefaultOptions() }

// TrainConfig is everything a training run depends on.
type TrainConfig = text.Config

// TrainEvents are called as a training run proceeds.
type TrainEvents = train.Events

// TrainStart and TrainProgress are what TrainEvents are told.
type (
	TrainStart    = train.Start
	TrainProgress = train.Progress
)

// TrainResult is how a training run ended.
type TrainResult = text.Result

// Preset returns the settings of a training run by name: tiny, small, h3-125m, ...
func Preset(name string) (TrainConfig, error) { return text.Preset(name) }

// Train trains a model and leaves it, with its tokenizer, curves and checkpoints, in the folder that the result names.
func Train(ctx context.Context, cfg TrainConfig, ev TrainEvents) (TrainResult, error) {
	return text.Run(ctx, cfg, ev)
}

// CPULevel names the processor features in use (generic, avx2, avx512, avx512bf16): the highest that the machine has,
// or what the environment variable HIPPO_CPU asks for. If the machine lacks that, the level is generic and the error
// says what there is.
func CPULevel() (string, error) { return native.Level() }
