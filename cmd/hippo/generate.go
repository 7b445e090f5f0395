package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/generate"
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
model that hippo pull has fetched. The prompt is read in chunks, then the text is written token by token from the
recurrent state, whose size does not grow with the text (but for attention layers). Without PROMPT, the prompt is read
from standard input. --precision bf16, int8 and int4 keep the weights in half, a quarter and a seventh of the memory, of
which each token reads all, and are that much faster; the text may differ. int4min is between int4 and int8. Without it,
weights of bfloat16 and of integers stay as they are in the file and all others are float32.

Every call draws another text, unless --temperature is 0 or --seed is given: the same seed, the same text. --stats and
--json tell the seed that was used; each of several samples has the next one.

--json-schema, --regex and --choices keep the text to JSON of a schema, to an expression or to one of some texts: it
ends where it is whole, or after --max_tokens.

On a terminal, control characters are shown as \x1b, so that a text cannot change its settings; elsewhere they are
written as they are.`,
		Example: `  hippo generate runs/tiny "Call me"
  hippo generate runs/tiny "The whale" --temperature 0 --max_tokens 400 --stats
  hippo generate runs/tiny "Once" --samples 3 --seed 7 --stop $'\n\n' --json
  hippo generate runs/tiny "The answer is " --choices yes,no
  hippo generate runs/tiny "Dear" --adapter runs/letters
  cat story.txt | hippo generate runs/tiny --continuation`,
		Args:              wantArgs(1, 2),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	config.Register(cmd.Flags(), &opt)
	seed := cmd.Flags().Lookup("seed")
	seed.Usage, seed.DefValue = "of the random numbers: the same seed, the same text (default: another each time)", ""
	cmd.Flags().IntVar(&g.samples, "samples", 1, "how many continuations to draw")
	cmd.Flags().IntVar(&g.chunk, "chunk", generate.DefaultChunk, "tokens of the prompt read at a time")
	precisionFlag(cmd, &g.precision)
	adapterFlag(cmd, &g.adapter)
	cmd.Flags().BoolVar(&g.continuation, "continuation", false,
		"print the continuation alone, without the prompt before it")
	cmd.Flags().BoolVar(&g.ids, "ids", false,
		`PROMPT and the text are ids of tokens, as in "17 4 98": for a model without a tokenizer that is read`)
	cmd.Flags().BoolVar(&g.stats, "stats", false,
		"print prefill and decode speed, the size of the state and the seed to standard error")
	cmd.Flags().BoolVar(&g.json, "json", false, "print one JSON object a sample, when it is whole")
	cmd.Flags().StringVar(&g.session, "session", "",
		"go on where the session of this name stands, make it if it is not there, and save it; with the prompt \"\" "+
			"go on with an interrupted reply")
	g.sessions.register(cmd)
	g.constraint.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := config.Load(&opt, config.Options{Flags: cmd.Flags()}); err != nil {
			return err
		}
		if g.samples < 1 || g.chunk < 1 {
			return fmt.Errorf("samples, chunk: found %d and %d, want at least 1 each", g.samples, g.chunk)
		}
		if g.session != "" && g.samples > 1 {
			return fmt.Errorf("samples: found %d, want 1 for a session", g.samples)
		}
		if !seed.Changed {
			opt.Seed = uint64(rand.Uint32()) // short enough to be typed
		}
		if _, err := modelPath(args[0]); err != nil {
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
		load := []hippo.LoadOption{hippo.Precision(g.precision)}
		if g.ids {
			load = append(load, hippo.TokenIDs())
		}
		m, err := loadModel(args[0], g.adapter, load...)
		if err != nil {
			return err
		}
		if err := g.constraint.apply(m, &opt); err != nil {
			return err
		}
		if g.session != "" {
			if !cmd.Flags().Changed("chunk") {
				g.chunk = 0 // what suits the model
			}
			return g.runNamed(cmd.Context(), m, prompt, opt)
		}
		return g.run(cmd.Context(), m, prompt, opt)
	}
	return cmd
}

// precisions are the values that hippo.Precision takes.
var precisions = []string{hippo.Stored, "float32", "bf16", "int8", "int4", "int4min"}

// precisionFlag is --precision of a command that only uses a model.
func precisionFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "precision", hippo.Stored,
		"weights as float32, bf16, int8, int4min or int4: faster with fewer bits, less exact; stored: bfloat16 and "+
			"integers as they are in the file, and float32 otherwise")
	completeFlag(cmd, "precision", cobra.FixedCompletions(precisions, cobra.ShellCompDirectiveNoFileComp))
}

// promptOf is the second argument or, where there is none, all of standard input, byte for byte. It is not empty.
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

// generation holds the options of hippo generate that do not concern sampling.
type generation struct {
	samples, chunk            int
	precision, adapter        string
	continuation, stats, json bool
	ids                       bool
	session                   string
	sessions                  sessionsFlags
	constraint                constraintFlags
}

func (g *generation) run(ctx context.Context, m *hippo.Model, prompt string, opt hippo.Options) error {
	s := m.NewSession()
	s.SetChunk(g.chunk)
	defer showReading(s)()
	w := newSampleWriter(os.Stdout, s, prompt, opt.Seed)
	w.echo, w.single, w.json = !g.continuation, g.samples == 1, g.json
	err := s.Samples(ctx, prompt, g.samples, opt, w.write)
	if closing := w.close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	if g.stats {
		g.tell(s, opt.Seed)
	}
	return nil
}

// tell prints how fast a session was.
func (g *generation) tell(s *hippo.Session, seed uint64) {
	stats := s.Stats()
	fmt.Fprintf(os.Stderr, "prefill %d tokens, %.0f tok/s; decode %d tokens, %.1f tok/s; state %s; seed %d\n",
		stats.PrefillTokens, rate(stats.PrefillTokens, stats.PrefillSeconds),
		stats.DecodeTokens, rate(stats.DecodeTokens, stats.DecodeSeconds),
		status.Bytes(uint64(stats.StateBytes)), seed)
}

// showReading shows on a terminal how far a session has read, if it takes more than a moment. The function it returns
// ends that.
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

func rate(n int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}
