package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
)

func newGenerate() *cobra.Command {
	opt := generate.DefaultOptions()
	var g generation
	cmd := &cobra.Command{
		Use:   "generate DIR [PROMPT]",
		Short: "Continue a text",
		Long: `Continue a text with the model in DIR: a model's folder, a training run's, or the name of a published
model that hippo pull has fetched. The prompt is read in chunks. Then the text is written token by token from the
recurrent state, whose size does not grow with the text, except for attention layers. Without PROMPT, the prompt is read
from standard input. hippo run talks with a model that was trained on chats.

--precision bf16, int8 and int4 hold the weights in a half, a quarter and a seventh of the memory. They are faster by as
much, because each token reads all weights; the text may differ. int4min is between int4 and int8. Without the flag,
bfloat16 and integer weights stay as in the file, and all others are float32.

Every call draws another text, unless --temperature is 0 or --seed is given: the same seed, the same text. --stats and
--json print the seed; each of several samples has the next one. --json-schema, --regex and --choices limit the text to
JSON of a schema, to an expression or to one of some texts: it ends when complete, or after --max_tokens.

--draft ngram guesses that what the text repeats goes on as before, and the model verifies several tokens in one step:
the text is the same, and where it repeats itself written several times as fast. --draft MODEL has a small model guess,
--draft mtp the model's own head for multi-token prediction, which Qwen3.5 and Qwen3-Next have.
It is for one sample at a time; --stats prints how many guesses were right.

On a terminal, control characters are shown as \x1b, so that a text cannot change its settings; elsewhere they are
written unchanged.`,
		Example: `  hippo generate runs/tiny "Call me"
  hippo generate runs/tiny "The whale" --temperature 0 --max_tokens 400 --stats
  hippo generate runs/tiny "Once" --samples 3 --seed 7 --stop $'\n\n' --json
  hippo generate runs/tiny "The answer is " --choices yes,no
  hippo generate runs/tiny "Dear" --adapter runs/letters
  hippo generate models/granite "$(cat prompt.txt main.go)" --draft ngram --stats
  cat story.txt | hippo generate runs/tiny --continuation`,
		Args:              wantArgs(1, 2),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	settled := samplingFlags(cmd, &opt, "the same text")
	f := cmd.Flags()
	f.IntVar(&g.samples, "samples", 1, "number of continuations to draw")
	f.IntVar(&g.chunk, "chunk", generate.DefaultChunk, "tokens of the prompt read at a time")
	precisionFlag(cmd, &g.precision, hippo.Stored)
	statesFlag(cmd, &g.states)
	adapterFlag(cmd, &g.adapter)
	deviceFlag(cmd, &g.device)
	drafts := draftFlag(cmd)
	f.BoolVar(&g.continuation, "continuation", false, "print the continuation alone, without the prompt before it")
	f.BoolVar(&g.ids, "ids", false,
		`PROMPT and the text are token ids, as in "17 4 98": for a model whose tokenizer cannot be read`)
	f.BoolVar(&g.stats, "stats", false,
		"print prefill and decode speed, the size of the state and the seed to standard error")
	f.BoolVar(&g.json, "json", false, "print one JSON object a sample, when it is complete")
	f.StringVar(&g.session, "session", "", "continue the session of this name, or create it, and save it; with the "+
		"prompt \"\" continue an interrupted reply")
	g.sessions.register(cmd)
	g.constraint.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := settled(); err != nil {
			return err
		}
		if g.samples < 1 || g.chunk < 1 {
			return fmt.Errorf("samples, chunk: found %d and %d, want at least 1 each", g.samples, g.chunk)
		}
		if g.session != "" && g.samples > 1 {
			return fmt.Errorf("samples: found %d, want 1 for a session", g.samples)
		}
		if _, err := modelPath(args[0]); err != nil {
			return err
		}
		on, err := onDevice(g.device) // before reading standard input, as hippo-gpu may have to run and read it
		if err != nil {
			return err
		}
		ask := promptOf
		if g.session != "" {
			ask = givenPrompt
		}
		prompt, err := ask(cmd.Context(), args)
		if err != nil {
			return err
		}
		load := []hippo.LoadOption{hippo.Precision(g.precision), hippo.StatePrecision(g.states), on}
		if g.ids {
			load = append(load, hippo.TokenIDs())
		}
		m, err := loadModel(args[0], g.adapter, load...)
		if err != nil {
			return err
		}
		if err := g.constraint.apply(m.Tokenizer(), m.EndIDs(), &opt); err != nil {
			return err
		}
		if opt.Draft, err = drafts(m); err != nil {
			return err
		}
		if g.session != "" && !f.Changed("chunk") {
			g.chunk = 0 // the session chooses a size
		}
		return g.run(cmd.Context(), m, prompt, opt)
	}
	return cmd
}

// samplingFlags adds the flags of sampling. settled reads them into opt, and draws a seed if none is given.
func samplingFlags(cmd *cobra.Command, opt *generate.Options, same string) (settled func() error) {
	config.Register(cmd.Flags(), opt)
	seed := cmd.Flags().Lookup("seed")
	seed.Usage, seed.DefValue = "seed of the random numbers: the same seed, "+same+" (default: another each time)", ""
	return func() error {
		err := config.Load(opt, config.Options{Flags: cmd.Flags()})
		if !seed.Changed {
			opt.Seed = uint64(rand.Uint32()) // short enough to be typed
		}
		return err
	}
}

// precisions lists the values that hippo.Precision accepts.
var precisions = []string{hippo.Stored, "float32", "bf16", "int8", "int4", "int4min"}

// precisionFlag adds the flag --precision to a command that uses a model but does not train it.
func precisionFlag(cmd *cobra.Command, to *string, standard string) {
	cmd.Flags().StringVar(to, "precision", standard,
		"weights as float32, bf16, int8, int4min or int4: faster with fewer bits, less exact; stored: bfloat16 and "+
			"integers as in the file, and float32 otherwise")
	completeFlag(cmd, "precision", cobra.FixedCompletions(precisions, cobra.ShellCompDirectiveNoFileComp))
}

// statesFlag adds the flag --state_precision to a command that generates text.
func statesFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "state_precision", statePrecisions[0],
		"states as float32, or those of Mamba-2 as bf16: half the memory, faster for many sequences, less exact")
	completeFlag(cmd, "state_precision", cobra.FixedCompletions(statePrecisions, cobra.ShellCompDirectiveNoFileComp))
}

// statePrecisions lists the values that hippo.StatePrecision accepts.
var statePrecisions = []string{"float32", "bf16"}

// promptOf returns the second argument or, if there is none, all of standard input, byte for byte. An empty prompt is
// an error.
func promptOf(ctx context.Context, args []string) (string, error) {
	prompt, err := givenPrompt(ctx, args)
	if err == nil && prompt == "" {
		err = errors.New("prompt: found nothing, want at least one character")
	}
	return prompt, err
}

func givenPrompt(ctx context.Context, args []string) (string, error) {
	if len(args) == 2 {
		return args[1], nil
	}
	if isTerminal(os.Stdin) {
		fmt.Fprintln(os.Stderr, "type the prompt, and end it by Ctrl-D (or give it as an argument):")
	}
	text, err := unlessDone(ctx, func() ([]byte, error) { return io.ReadAll(os.Stdin) })
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	return string(text), nil
}

// generation holds the flags of hippo generate that do not concern sampling.
type generation struct {
	samples, chunk            int
	precision, states         string
	adapter                   string
	device                    string
	continuation, stats, json bool
	ids                       bool
	session                   string
	sessions                  sessionsFlags
	constraint                constraintFlags
}

// run draws samples, or continues a named session.
func (g *generation) run(ctx context.Context, m *hippo.Model, prompt string, opt hippo.Options) error {
	var s *hippo.Session
	var draw func(emit func(generate.Piece) error) error
	finish := func(err error) error { return err }
	if g.session == "" {
		s = m.NewSession()
		s.SetChunk(g.chunk)
		draw = func(emit func(generate.Piece) error) error { return s.Samples(ctx, prompt, g.samples, opt, emit) }
	} else {
		n, err := g.sessions.take(m, g.session, g.chunk)
		if err != nil {
			return err
		}
		opt.EndIDs = slices.Concat(opt.EndIDs, m.EndIDs())
		s, finish = n.Session, n.give
		draw = func(emit func(generate.Piece) error) error { return n.reply(ctx, prompt, opt, emit) }
	}
	defer showReading(s)()
	w := &generate.SampleWriter{Prompt: prompt, Seed: opt.Seed, Echo: !g.continuation, Single: g.samples == 1,
		JSON: g.json, Stats: s.Stats}
	if isTerminal(os.Stdout) {
		w.Safe = brief.Printable
	}
	w.Start(os.Stdout)
	err := draw(w.Write)
	if closing := w.Close(); err == nil {
		err = closing
	}
	if err = finish(err); err == nil && g.stats {
		x := s.Stats()
		drafts := ""
		if opt.Draft != nil {
			drafts = fmt.Sprintf("drafts %d tokens, %d right; ", x.DraftedTokens, x.AcceptedTokens)
		}
		fmt.Fprintf(os.Stderr, "prefill %d tokens, %.0f tok/s; decode %d tokens, %.1f tok/s; %sstate %s; seed %d\n",
			x.PrefillTokens, x.PrefillSpeed(), x.DecodeTokens, x.DecodeSpeed(), drafts, status.Bytes(x.StateBytes),
			opt.Seed)
	}
	return err
}

// showReading shows the progress of a session's reading on a terminal, if reading takes longer than a second. The
// function that it returns ends the display.
func showReading(s *hippo.Session) func() {
	if !isTerminal(os.Stderr) {
		return func() {}
	}
	p := newProgress("reading")
	p.silent = time.Second
	s.SetProgress(func(read, total int) {
		p.update(read, total)
		if read == total {
			p.close() // the text follows
		}
	})
	return p.close
}
