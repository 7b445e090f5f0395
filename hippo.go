// Package hippo runs and trains state-space sequence models: H3 ("Hungry Hungry Hippos", arXiv:2212.14052), its hybrids
// with attention, and their relatives. It is the small interface for programs that want a model inside: Load a model,
// open a Session, Generate text; or Train one. Everything else is in the packages below it.
//
// A model may be shared by any number of goroutines, each with a Session of its own.
package hippo

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// Model is a language model with its tokenizer.
type Model struct {
	net *model.Model
	tok tokenizer.Tokenizer
	dir string
}

// LoadOption is an option of Load.
type LoadOption func(*loadOptions) error

type loadOptions struct {
	precision *engine.Precision
	ids       bool
}

// TokenIDs has the ids of tokens for text ("17 4 98"), for a model whose tokenizer is not there or not read.
func TokenIDs() LoadOption {
	return func(o *loadOptions) error {
		o.ids = true
		return nil
	}
}

// Precision packs a model for inference, with weights as float32, bf16 or int8, see engine.Precision: it then generates
// faster, and can neither be trained nor saved. float32 changes no result.
func Precision(name string) LoadOption {
	return func(o *loadOptions) error {
		p, err := engine.ParsePrecision(name)
		o.precision = &p
		return err
	}
}

// Load reads a model from a folder: one that hippo convert or Model.Save made, or the folder of a training run, whose
// best checkpoint it takes. A folder without a tokenizer.json that has the vocabulary of GPT-2 gets GPT-2's tokenizer.
func Load(dir string, options ...LoadOption) (*Model, error) {
	var o loadOptions
	for _, option := range options {
		if err := option(&o); err != nil {
			return nil, err
		}
	}
	load := release.LoadDir
	if o.precision != nil {
		load = func(dir string) (*model.Model, string, error) { return release.LoadDirPacked(dir, *o.precision) }
	}
	net, dir, err := load(dir)
	if err != nil {
		return nil, err
	}
	if o.ids {
		return &Model{net: net, tok: tokenizer.IDs(net.Config.PaddedVocab()), dir: dir}, nil
	}
	tok, err := tokenizerFor(dir, &net.Config)
	if err != nil {
		return nil, err
	}
	return &Model{net: net, tok: tok, dir: dir}, nil
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

// Dir is the folder that the model was read from.
func (m *Model) Dir() string { return m.dir }

// NumParams is the number of parameters.
func (m *Model) NumParams() int { return m.net.NumParams() }

// Options say how to continue a text. They are those of package generate, with those of package generate/sample inside:
//
//	MaxTokens         int      // tokens of a continuation, at most
//	Stop              []string // texts before which a continuation ends; they are not part of it
//	IgnoreEnd         bool     // go on after the end-of-text token
//	EndIDs            []int32  // further tokens that end a continuation
//	Temperature       float64  // 0 always takes the most probable token, 1 follows the model, more is more varied
//	TopK              int      // choose among this many of the most probable tokens; 0 for all
//	TopP              float64  // choose among the most probable that together have this probability; 0 or 1 for all
//	MinP              float64  // leave out tokens less probable than this part of the most probable; 0 for none
//	RepetitionPenalty float64  // above 1 repeats less, below 1 more; 0 or 1 for no effect
//	RepetitionWindow  int      // how many of the last tokens count as repeated; 0 for all
//	Seed              uint64   // of the random numbers: the same seed, the same text
type Options = generate.Options

// DefaultOptions are 200 tokens at temperature 0.8 among the 40 most probable. The seed is 0: set another for another
// text.
func DefaultOptions() Options { return generate.DefaultOptions() }

// Session is a text being read and written by a model: a recurrent state, whose size does not grow with the text (but
// for the attention layers of a hybrid), and the numbers of its tokens, for the repetition penalty. A session that
// waits holds no other memory. A Session is for one goroutine.
type Session struct {
	m       *Model
	s       *generate.Session
	history []int32
}

// NewSession returns a session at the start of a text.
func (m *Model) NewSession() *Session {
	return &Session{m: m, s: generate.NewSession(m.net, 1)}
}

// Append makes the session read text. It ends soon after ctx is done, at most a chunk of tokens later, with the error
// of ctx. The session stands somewhere in the text then and is of use no more: take a Fork before a text that may be
// given up.
//
// A text that is appended in parts has the tokens of its parts, which may be others than those of the whole.
func (s *Session) Append(ctx context.Context, text string) error {
	ids, err := s.m.tok.Encode(nil, []byte(text))
	if err != nil || len(ids) == 0 {
		return err
	}
	before := s.s.Position()
	err = s.s.Prefill(ctx, ids)
	s.history = append(s.history, ids[:s.s.Position()-before]...)
	return err
}

// Generate reads prompt and continues the text, piece by piece: whole UTF-8 characters, never a part of a stop string.
// It ends after an error, which is the last pair. When it has ended, or the loop over it, the session stands behind the
// text generated so far, and Append or Generate go on from there.
func (s *Session) Generate(ctx context.Context, prompt string, o Options) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := s.Append(ctx, prompt); err != nil {
			yield("", err)
			return
		}
		for piece, err := range s.s.Generate(ctx, s.m.tok, s.history, o) {
			s.history = append(s.history, piece.IDs...)
			if (err != nil || len(piece.Text) > 0) && !yield(string(piece.Text), err) {
				return
			}
		}
	}
}

// Fork returns an independent session in the same state: the way to try several continuations.
func (s *Session) Fork() *Session {
	return &Session{m: s.m, s: s.s.Fork(), history: append([]int32(nil), s.history...)}
}

// SetChunk sets how many tokens of a prompt are read at a time, counted from the start of the text: 512, unless it is
// called. More take more memory and are faster, up to some hundred. The text that follows depends on the number by
// rounding alone: where two tokens are all but equally probable, the other may be chosen, which is rare in
// float32, less so in bf16, and is not in int8. See generate.Session for what is the same to the last bit.
func (s *Session) SetChunk(n int) { s.s.Chunk = n }

// SetProgress has f called while the session reads, after each chunk, with how many tokens of the text have been read
// and how many there are. A nil f ends that. Forks do not call it.
func (s *Session) SetProgress(f func(read, total int)) { s.s.Progress = f }

// StateSize is the number of bytes of the session's state.
func (s *Session) StateSize() int { return s.s.StateSize() }

// Stats are the speeds of the session so far.
func (s *Session) Stats() generate.Stats { return s.s.Stats }

// TrainConfig is everything a training run depends on.
type TrainConfig = train.Config

// TrainEvents are called as a training run proceeds.
type TrainEvents = train.Events

// TrainStart and TrainProgress are what TrainEvents are told.
type (
	TrainStart    = train.Start
	TrainProgress = train.Progress
)

// TrainResult is how a training run ended.
type TrainResult = train.Result

// Preset returns the settings of a training run by name: tiny, small, h3-125m, ...
func Preset(name string) (TrainConfig, error) { return train.Preset(name) }

// Train trains a model and leaves it, with its tokenizer, curves and checkpoints, in the folder that the result names.
func Train(ctx context.Context, cfg TrainConfig, ev TrainEvents) (TrainResult, error) {
	return train.Run(ctx, cfg, ev)
}

// Samples reads prompt once and draws n continuations, with seeds o.Seed, o.Seed+1, ... It calls emit with every piece
// of text: several samples are drawn side by side, as many as fit into memory, and the next ones when those have ended.
// A sample is the same however many there are. The session stays behind the prompt; its Stats count the samples.
func (s *Session) Samples(ctx context.Context, prompt string, n int, o Options, emit func(generate.Piece) error) error {
	if n < 1 {
		return fmt.Errorf("samples: found %d, want at least 1", n)
	}
	if err := s.Append(ctx, prompt); err != nil {
		return err
	}
	for first, most := 0, s.sideBySide(o.MaxTokens); first < n; first += most {
		if err := s.samples(ctx, first, min(most, n-first), o, emit); err != nil {
			return err
		}
	}
	return nil
}

// sideBySide is how many samples of that many tokens are drawn at a time.
func (s *Session) sideBySide(tokens int) int {
	const most, memory = 64, 256 << 20
	growth, _ := s.m.net.Growth()
	numbers := 4 * (len(s.history) + s.m.net.Config.PaddedVocab())
	each := float64(s.StateSize()+numbers) + float64(growth+4)*float64(tokens)
	return int(max(1, min(most, memory/each)))
}

// samples draws samples first to first+n-1 side by side.
func (s *Session) samples(ctx context.Context, first, n int, o Options, emit func(generate.Piece) error) error {
	batch, err := s.s.Repeat(n)
	if err != nil {
		return err
	}
	batch.Stats = s.s.Stats
	o.Seed += uint64(first)
	for piece, err := range batch.Generate(ctx, s.m.tok, s.history, o) {
		s.s.Stats = batch.Stats
		piece.Sample += first
		if err == nil {
			err = emit(piece)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CPULevel names the processor features in use (generic, avx2, avx512, avx512bf16): the highest that the machine has,
// or what the environment variable HIPPO_CPU asks for. If the machine lacks that, the level is generic and the error
// says what there is.
func CPULevel() (string, error) { return autograd.CPULevel() }
