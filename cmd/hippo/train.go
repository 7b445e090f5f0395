package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/text"
)

func newTrain() *cobra.Command {
	var file, resume string
	var dryRun, smoke bool
	var batch string
	var show, like int
	var network, on string
	var find lrFinder
	var several machines
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Train a language model",
		Long: `Train a language model. Without flags it trains the preset "tiny", a hybrid H3, on the built-in text of
Moby Dick. Settings come from the preset, a YAML file (--config), HIPPO_ variables and flags, each overriding the one
before. Ctrl-C, and a closed terminal, save a checkpoint; a second Ctrl-C stops at once. The command to resume is
printed.

--init starts from the weights, shape and tokenizer of a model, not from random weights: of a folder, a run, a file, or
a published model that hippo pull has fetched. The default learning rate is then 0.05 by the width of the model.
--freeze excludes parameters from training: by name, by the start of a name up to a dot, and by patterns with *, ? and
ranges, such as backbone.embeddings,backbone.layers.0-5.

--lora.rank R trains an adapter of low rank (LoRA) of the model that --init names: of all its products, or of those of
--lora.target. The model itself is frozen and not saved again; --lora.base bf16, int8 and int4 store it in a half, a
quarter and a seventh of the memory. Use the adapter by its folder, as a model, or by --adapter; hippo merge merges
both.

--data and --valid take files, folders, globs or - for standard input; .gz, .zst and .jsonl are read as what they hold.
A run that needs more memory than there is is refused, unless --memory ignore. --train.time ends a run after that time
of training, whatever --train.steps is: evaluations, samples and checkpoints do not count, and the learning rate follows
the elapsed share of the time. --train.carry_state reads the text in order: recurrent states are carried forever, keys
and values of attention for one sequence.

Texts of a .jsonl file, and of several files, are documents that do not see each other, however they are packed into
sequences; --documents join makes them one text. A .jsonl file of chats has lines with messages (role and content), or
with a prompt and a completion: the loss counts the replies, not what is given. The chat template is that of the model
of --init, or --template. --show prints texts with what counts in them. --train.chunk limits the tokens of a sequence in
memory, with states and their gradients passed between chunks, for sequences of any length.

--train.islands N trains N islands, which meet every --train.every updates (DiLoCo), for machines with a slow network
between them.

--smoke tries everything in two updates. --batch auto takes the most sequences that fit into memory. --lr-find tries
learning rates. --device gpu trains on a graphics card; a run may be resumed on another device than it began on, with
other roundings. --train.patience ends a run whose validation loss stops improving; --train.ema saves an average of the
weights as the best model. A run that diverges ends with an error.`,
		Example: `  hippo train
  hippo train --data book.txt --out runs/book
  hippo train --data 'corpus/**/*.jsonl.zst' --tokenizer gpt2 --preset small
  hippo train --model.layers 'h3*3,attention,h3*2' --model.d_model 192 --train.steps 2000
  hippo train --preset h3-125m --dry-run
  hippo train --preset small --train.shards 16 --dry-run --machines 4 --network 1Gbit
  hippo train --init runs/book --train.shards 4 --train.islands 4 --train.every 100 --listen :7700
  hippo train --init runs/book --data letters.txt
  hippo train --init org/name --data chats.jsonl --show 3
  hippo train --data chats.jsonl --template chatml --train.patience 5
  hippo train --data genome.fa --tokenizer dna --train.seq_len 1000000 --batch 1 --train.chunk 16384 --model.layers h3*4
  hippo train --data book.txt --lr-find 100 --plot rates.png
  hippo train --data book.txt --preset small --batch auto --smoke
  hippo train --init state-spaces/mamba-130m --data mine.txt --freeze backbone.embedding,backbone.layers.0-11
  hippo train --init runs/book --data letters.txt --lora.rank 16 --out runs/letters
  hippo train --init org/name --data mine.txt --lora.rank 8 --lora.target 'q_proj,v_proj' --lora.base int8
  hippo train --resume runs/book --train.steps 4000`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("found the argument %q, want flags only: text is given by --data %s", args[0],
					config.Quote(args[0]))
			}
			return nil
		},
	}
	defaults, err := text.Preset("tiny")
	if err != nil {
		panic(err) // the preset is part of the program
	}
	config.Register(cmd.Flags(), &defaults)
	cmd.Flags().StringVar(&file, "config", "", "YAML file of settings")
	cmd.Flags().StringVar(&resume, "resume", "", "folder of the run to continue from its last checkpoint")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print parameters, memory, estimated speed and time, and stop")
	cmd.Flags().IntVar(&like, "machines", 1, "with --dry-run: predict for so many machines like this one")
	cmd.Flags().StringVar(&network, "network", "1Gbit", "with --machines: the speed of the network of each")
	cmd.Flags().BoolVar(&smoke, "smoke", false,
		"try two updates, a checkpoint and a sample text; nothing is saved without --out")
	cmd.Flags().StringVar(&batch, "batch", "",
		"sequences of a shard, as train.batch_size; auto: the most that fit into memory")
	cmd.Flags().IntVar(&show, "show", 0, "print this number of training texts, with what counts in each, and stop")
	deviceFlag(cmd, &on)
	find.register(cmd)
	several.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := find.check(); err != nil {
			return err
		}
		opt := config.Options{File: file, EnvPrefix: "HIPPO_", Environ: os.Environ(),
			Ignore: otherVariables(cmd.Root()), Flags: cmd.Flags()}
		var cfg, said text.Config // said is the configuration as the other machines of a launch read it
		launch, err := several.launched()
		if err != nil {
			return err
		}
		there, err := deviceOrAuto(on) // before reading any input, as hippo-gpu may have to run and read it
		switch {
		case err != nil:
			return err
		case on == auto && (launch.Size > 1 || several.listen != ""):
			return fmt.Errorf("device: found %s in a run on several machines, want cpu, gpu, or gpu:1: all compute on "+
				"devices of one kind", on)
		case there != nil && (dryRun || batch == "auto"):
			return fmt.Errorf("device: found %s together with --dry-run or --batch auto, want cpu: these measure the "+
				"processor and its memory", on)
		}
		if resume != "" {
			cfg, err = resumed(resume, opt)
			said = cfg
		} else {
			if launch.By != "" {
				said, err = text.Load(opt)
			}
			if launch.Rank == 0 {
				cfg, err = text.LoadNew(opt, modelOrFile)
			}
		}
		switch {
		case err != nil:
			return err
		case launch.Rank > 0 && (dryRun || smoke || show != 0 || find.updates != 0): // only in the first process
			return nil
		case launch.Rank > 0:
			if err := enoughParts(launch, &said); err != nil { // the leader ends with the same error
				return err
			}
			return several.follow(cmd, several.joins(launch, meetingFolder(&said)), &said, launch.Rank, there)
		}
		if cfg.Device = there; on == auto && there != nil {
			use, told, err := train.OnDevice(cfg.FitsDevice(), cfg.Model, there)
			if err != nil {
				return err
			}
			if noteDevice(told); !use {
				cfg.Device = nil
			}
		}
		if err := setBatch(&cfg, batch, cmd.Flags().Changed("train.batch_size")); err != nil {
			return err
		}
		switch {
		case resume != "" && (smoke || find.updates != 0):
			return fmt.Errorf("found --resume together with --smoke or --lr-find, want one of them: these start anew")
		case !dryRun && (like != 1 || cmd.Flags().Changed("network")):
			return errors.New("found --machines or --network without --dry-run: a run on several machines has " +
				"--listen, or a launcher")
		case show < 0:
			return fmt.Errorf("show: found %d, want a number of texts", show)
		case show > 0:
			return showTexts(cmd, cfg, show)
		case find.updates != 0:
			return find.find(cmd, func(told func(train.LRPoint)) (*train.LRRange, error) {
				return cfg.FindLR(cmd.Context(), find.updates, told)
			})
		case dryRun:
			return printEstimate(cmd, cfg, like, network)
		case smoke:
			return tryTraining(cmd, cfg, cmd.Flags().Changed("out"))
		}
		end, err := several.lead(cmd.Context(), launch, &cfg, said)
		if err != nil {
			return err
		}
		return end(runTraining(cmd, cfg, resume != ""))
	}
	return cmd
}

// resumed returns the configuration of an earlier run, changed by the settings in file, environment and flags.
func resumed(dir string, opt config.Options) (text.Config, error) {
	if err := wantModel(dir); err != nil {
		return text.Config{}, err
	}
	cfg, err := text.ReadRun(dir)
	if err != nil {
		return cfg, err
	}
	var p config.Problems
	run := cfg
	p.Add(config.Load(&cfg, opt))
	if cfg.Preset != run.Preset {
		p.Addf("preset", "found %q together with --resume, want none: a resumed run keeps its settings", cfg.Preset)
	}
	for _, f := range []struct{ key, was, is string }{
		{"documents", run.Documents, cfg.Documents}, {"template", run.Template, cfg.Template},
		{"reply_end", run.ReplyEnd, cfg.ReplyEnd},
		{"init", run.Init, cfg.Init}, {"init_weights", run.InitWeights, cfg.InitWeights},
		{"freeze", strings.Join(run.Freeze, ","), strings.Join(cfg.Freeze, ",")},
	} {
		if f.is != f.was {
			p.Addf(f.key, "found %q together with --resume, want none: a resumed run keeps what it started with", f.is)
		}
	}
	for _, line := range config.Diff(&run.Model, &cfg.Model) {
		p = append(p, "model."+line+": the shape of a run that is resumed cannot change")
	}
	if cfg.Train.Islands != run.Train.Islands || cfg.Train.Islands > 0 &&
		(cfg.Train.IslandPrecision != run.Train.IslandPrecision || cfg.Train.Shards != run.Train.Shards) {
		p.Addf("train.islands, train.island_precision, train.shards",
			"found others together with --resume, want none: islands of a run that is resumed cannot change")
	}
	for _, line := range config.Diff(&run.LoRA, &cfg.LoRA) {
		p = append(p, "lora."+line+": the adapter of a run that is resumed cannot change")
	}
	if cfg.Train.Steps != run.Train.Steps && cfg.Train.Epochs == run.Train.Epochs {
		cfg.Train.Epochs = 0 // the new steps replace the epochs
	}
	if cfg.Out != dir {
		p.Addf("out", "found %q together with --resume %s, want only one of them", cfg.Out, dir)
	}
	p.Add(cfg.Validate())
	return cfg, p.Err()
}

// watchTraining makes a run and prints its progress. It returns errors that can be printed as they are. For an
// interrupted run it prints how to resume it.
func watchTraining(cmd *cobra.Command, cfg text.Config, resuming bool) (text.Result, error) {
	p := status.New(os.Stderr, 10*time.Second)
	run := text.Run
	if resuming {
		run = text.Resume
	}
	ctx, stop := whileRead(cmd.Context())
	defer stop()
	res, err := run(ctx, cfg, printing(p))
	p.Close()
	var broke *train.NonFiniteError
	var lost *train.DeviceError
	switch {
	case errors.As(err, &lost) && lost.Step > 0:
		return res, fmt.Errorf("%w; to resume:\n  %s --device %s", err, resumeCommand(res.Out), onCPU)
	case errors.As(err, &broke):
		return res, fmt.Errorf("%w\n%s", err, lastGood(res.Out))
	case err != nil:
		return res, err
	case res.Interrupted:
		resume := resumeCommand(res.Out)
		if on := cmd.Flag("device").Value.String(); cfg.Device != nil {
			resume += " --device " + on
		}
		fmt.Fprintf(os.Stderr, "interrupted at step %d; to resume:\n  %s\n", res.Step, resume)
		if slices.Contains(cfg.Data, "-") || slices.Contains(cfg.Valid, "-") {
			fmt.Fprintln(os.Stderr, "with the same text on standard input as before")
		}
		return res, stopped(cmd.Context(), cfg.Team != nil)
	}
	return res, nil
}

func runTraining(cmd *cobra.Command, cfg text.Config, resuming bool) error {
	began := time.Now()
	res, err := watchTraining(cmd, cfg, resuming)
	if err != nil {
		return err
	}
	loss := text.LossText(res.BestLoss)
	if res.BestStep != res.Step {
		loss += fmt.Sprintf(" at step %d, the best, which generate and eval use, and %.4f at the end", res.BestStep,
			res.ValidLoss)
	}
	fmt.Fprintf(os.Stderr, "done in %s: validation loss %s; run card %s\n", status.Duration(time.Since(began)), loss,
		res.Out+"/"+text.CardFile)
	try := generateCommand(res.Out, res.Prompt)
	if res.Chat {
		try = program() + " run " + config.Quote(res.Out)
	}
	fmt.Fprintf(os.Stderr, "try it:\n  %s\n", try)
	return nil
}

// lastGood returns a text that tells where the last checkpoint of a diverged run is.
func lastGood(out string) string {
	dir := filepath.Join(out, model.LastDir)
	if _, err := os.Stat(dir); err != nil {
		return "it broke down before its first checkpoint"
	}
	return "the last good checkpoint is in " + dir
}

// program is the name by which the user called this program. Printed commands start with it.
func program() string {
	if strings.Contains(os.Args[0], string(os.PathSeparator)+"go-build") {
		return "go run ./cmd/hippo"
	}
	return config.Quote(os.Args[0])
}

func resumeCommand(out string) string { return program() + " train --resume " + config.Quote(out) }

// generateCommand returns a command for a POSIX shell that continues a prompt with the model in a folder. It omits a
// prompt that cannot be typed. The command then reads a prompt from standard input.
func generateCommand(dir, prompt string) string {
	line := program() + " generate "
	if strings.HasPrefix(dir, "-") || strings.HasPrefix(prompt, "-") {
		line += "-- "
	}
	line += config.Quote(dir)
	if prompt != "" && prompt == brief.Printable(prompt) {
		line += " " + config.Quote(prompt)
	}
	return line
}

// printing returns events that print the progress of a run. When the weights are in memory, and again after the first
// update, they call collectEarly so that garbage takes little memory in addition.
func printing(p *status.Printer) train.Events {
	updated := false
	return train.Events{
		Note: noteTo(p),
		Start: func(s train.Start) {
			collectEarly(int(status.RSS()))
			base, trained := "", ""
			if s.Base != "" {
				base = " of " + brief.Printable(s.Base)
			}
			if s.Trained < s.Params {
				trained = fmt.Sprintf(" (%s trained, %s frozen)", status.Count(s.Trained),
					status.Count(s.Params-s.Trained))
			}
			p.Printf("%s parameters%s%s, %s tokenizer (%d tokens), %s: %s tokens for training, %s for validation; %s\n",
				status.Count(s.Params), base, trained, s.Tokenizer, s.Vocab, s.DataName,
				status.Count(s.TrainTokens),
				status.Count(s.ValidTokens), s.Out)
			if s.Resumed > 0 {
				p.Printf("resuming from step %d\n", s.Resumed)
			}
		},
		Step: func(g train.Progress) {
			if !updated {
				updated = true
				collectEarly(int(g.MemBytes))
			}
			p.Update(status.Training{
				Step: int64(g.Step), Steps: int64(g.Steps), Loss: g.Loss, ValLoss: g.ValidLoss,
				TokensPerSec: g.TokensPerSec,
				GradNorm:     g.GradNorm, LR: g.LR, ETA: g.ETA, Mem: g.MemBytes,
			}.Line())
		},
		Eval: func(g train.Progress) {
			best := ""
			switch {
			case g.ValidLoss > g.Guess:
				best = fmt.Sprintf(" (worse than guessing, %.4f)", g.Guess)
			case g.Best:
				best = " (best)"
			}
			p.Printf("step %d: validation loss %.4f%s\n", g.Step, g.ValidLoss, best)
		},
		Sample: func(step int, text string) {
			p.Printf("step %d: sample: %s\n", step, strings.TrimSpace(brief.Printable(text)))
		},
	}
}
