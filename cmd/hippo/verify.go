package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/verify"
)

// verifyOptions holds the flags of hippo verify.
type verifyOptions struct {
	Text      string  `json:"text" help:"file whose first tokens are the sequence; empty: tokens drawn at random"`
	Lengths   []int   `json:"lengths" min:"1" help:"lengths of sequences, in tokens; empty: 1, 7, 40 and 130"`
	Forward   bool    `json:"forward" help:"skip gradients: a third of the time"`
	Tolerance float64 `json:"tolerance" min:"0" help:"factor of the allowed differences"`
	Device    string  `json:"device" help:"where to compute: cpu, gpu, or gpu:1 for a number of hippo bench devices"`
	JSON      bool    `json:"json" help:"print a JSON object"`

	Preset []string `json:"preset" help:"verify fresh models of these presets, such as mamba-tiny, not one in DIR"`

	Certificate int      `json:"certificate" min:"0" help:"positions that the model, or a layer of each mixer, reads"`
	Mixers      []string `json:"mixers" help:"of the certificate; empty: all whose state does not grow"`
}

// errDiffers ends the program with status 1. The table that is printed before shows the differences.
var errDiffers = errors.New("the model is not computed as it is defined: see the lines marked DIFFERS")

func newVerify() *cobra.Command {
	opt := verifyOptions{Tolerance: 1, Device: onCPU}
	cmd := &cobra.Command{
		Use:   "verify [DIR]",
		Short: "Check that a model is computed as it is defined",
		Long: `Check that the model in DIR, or the published one of that name, is computed as it is defined. On
sequences of several lengths the fast engine is compared with the reference engine, which computes every operation by
its definition in float64: outputs of every layer, logits, loss, gradients of every parameter, states. Then the sequence
is read in chunks and step by step, as generation does: the results must be the same. Each line shows the largest
difference, relative to the largest element, and where it is.

With --certificate N the model reads N positions with its state carried along: in chunks, position by position, and by
definition in float64. A line shows how far the outputs are from the definition between two positions.

The exit status is 1 if something differs by more than rounding to float32 explains. The reference engine is slow: a
model of 125M parameters takes minutes. Send the output of --json with a bug report.`,
		Example: `  hippo verify runs/tiny
  hippo verify models/h3-125m --lengths 12 --forward
  hippo verify --preset mamba-tiny --json
  hippo verify runs/tiny --certificate 100000
  hippo verify --certificate 1000000 --json > certificate.jsonl
  hippo verify --certificate 10000 --mixers h3,mamba2`,
		Args:              wantArgs(0, 1),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	return configured(cmd, &opt, func(cmd *cobra.Command, args []string) error {
		switch {
		case opt.Tolerance == 0:
			return errors.New("tolerance: found 0, want more than 0")
		case opt.Certificate == 0 && len(opt.Mixers) > 0:
			return errors.New("mixers: found some without --certificate, want the number of positions that they read")
		}
		on, err := device(opt.Device)
		if err != nil {
			return err
		}
		if opt.Certificate > 0 {
			return opt.certify(cmd, args, on)
		}
		presets, good := opt.Preset, true
		if len(presets) == 0 {
			presets = []string{""}
		}
		for _, preset := range presets {
			report, err := opt.verify(cmd, args, preset, on)
			if err != nil {
				return err
			}
			if good = good && report.OK; len(presets) > 1 {
				report.Model = preset
			}
			if err := show(cmd, report, func(out io.Writer) error { return printVerify(out, report) }); err != nil {
				return err
			}
		}
		if !good {
			return errDiffers
		}
		return nil
	})
}

// verify checks one model.
func (opt *verifyOptions) verify(cmd *cobra.Command, args []string, preset string,
	on engine.Backend) (verify.Report, error) {
	m, o, err := opt.model(args, preset)
	if err != nil {
		return verify.Report{}, err
	}
	if on != nil {
		m.Use(on)
	}
	if !opt.JSON {
		o.Progress = func(what string) { fmt.Fprintln(cmd.ErrOrStderr(), what) }
	}
	return verify.Model(cmd.Context(), m, o)
}

// model loads or creates the model, and returns the options of the check.
func (opt *verifyOptions) model(args []string, preset string) (*model.Model, verify.Options, error) {
	o := verify.Options{Lengths: opt.Lengths, Forward: opt.Forward, Scale: opt.Tolerance}
	switch {
	case preset != "" && len(args) > 0:
		return nil, o, fmt.Errorf("found the model %s and --preset %s, want one of them", args[0], preset)
	case preset != "" && opt.Text != "":
		return nil, o, fmt.Errorf("text: found %s together with --preset, want the model of a folder: "+
			"a preset has no tokenizer", opt.Text)
	case preset != "":
		cfg, err := hippo.Preset(preset)
		if err != nil {
			return nil, o, err
		}
		if cfg.Model.VocabSize == 0 {
			cfg.Model.VocabSize = 256
		}
		m, err := model.New(cfg.Model)
		if err != nil {
			return nil, o, err
		}
		m.Init(1)
		return m, o, nil
	case len(args) == 0:
		return nil, o, errors.New("found no model, want a folder or --preset NAME")
	}
	dir, err := modelPath(args[0])
	if err != nil {
		return nil, o, err
	}
	if opt.Text == "" { // no tokenizer is needed, and the folder may lack one
		m, _, err := release.LoadDir(dir)
		return m, o, err
	}
	m, err := hippo.Load(dir)
	if err != nil {
		return nil, o, err
	}
	text, err := os.ReadFile(opt.Text)
	if err != nil {
		return nil, o, err
	}
	o.Tokens, err = m.Tokenizer().Encode(nil, text)
	return m.Net(), o, err
}

// certify prints the certificate of a model, of some mixers, or of all mixers.
func (opt *verifyOptions) certify(cmd *cobra.Command, args []string, on engine.Backend) error {
	if opt.Forward || len(opt.Lengths) > 0 {
		return errors.New("certificate: found --forward or --lengths, too, which belong to the check of gradients")
	}
	out, good, head := cmd.OutOrStdout(), true, false
	c := verify.Certificate{Positions: opt.Certificate, Backend: on, Scale: opt.Tolerance}
	c.Report = func(s verify.Span) error {
		good = good && s.OK
		if opt.JSON {
			return plainJSON(out).Encode(s)
		}
		verdict := ""
		if !s.OK {
			verdict = "  DIFFERS"
		}
		if !head {
			head = true
			fmt.Fprintf(out, "%-18s %-7s %9s %9s  %s\n", "of", "read in", "from", "to", "difference")
		}
		_, err := fmt.Fprintf(out, "%-18s %-7s %9d %9d  %.1e%s\n", cmp.Or(s.Mixer, s.Model), s.Form, s.From, s.To,
			s.Error, verdict)
		return err
	}
	certify := opt.certifyMixers
	if len(args) > 0 || len(opt.Preset) > 0 {
		certify = opt.certifyModel
	}
	if err := certify(cmd.Context(), &c, args); err != nil {
		return err
	}
	if !good {
		return errDiffers
	}
	return nil
}

func (opt *verifyOptions) certifyModel(ctx context.Context, c *verify.Certificate, args []string) error {
	if len(opt.Mixers) > 0 {
		return errors.New("certificate: found a model and --mixers, want one of them")
	}
	if len(opt.Preset) > 1 {
		return fmt.Errorf("preset: found %d with --certificate, want one", len(opt.Preset))
	}
	name := strings.Join(opt.Preset, "")
	m, o, err := opt.model(args, name)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		name = filepath.Base(args[0])
	}
	return c.Model(ctx, name, m, o.Tokens)
}

func (opt *verifyOptions) certifyMixers(ctx context.Context, c *verify.Certificate, _ []string) error {
	if opt.Text != "" {
		return fmt.Errorf("text: found %s without a model, want a folder: layers of mixers read random numbers",
			opt.Text)
	}
	for _, name := range opt.Mixers {
		if !slices.Contains(model.MixerNames(), name) {
			return fmt.Errorf("mixers: found %q, want some of %s%s", name, strings.Join(model.MixerNames(), ", "),
				config.DidYouMean(name, model.MixerNames()))
		}
	}
	for _, info := range model.Mixers() {
		if len(opt.Mixers) > 0 && !slices.Contains(opt.Mixers, info.Name) || len(opt.Mixers) == 0 && !info.Recurrent {
			continue
		}
		if err := c.Mixer(ctx, info); err != nil {
			return err
		}
	}
	return nil
}

func printVerify(out io.Writer, r verify.Report) error {
	if r.Model != "" {
		if _, err := fmt.Fprintln(out, r.Model); err != nil {
			return err
		}
	}
	var lines [][]string
	for _, c := range r.Checks {
		verdict := "ok"
		if !c.OK {
			verdict = "DIFFERS"
		}
		lines = append(lines, []string{
			c.Kind, fmt.Sprint(c.Length), c.What, fmt.Sprintf("%.1e", c.Error), fmt.Sprintf("%.1e", c.Tolerance),
			verdict, c.Where,
		})
	}
	heading := []string{"compared", "length", "what", "difference", "allowed", "", "largest in"}
	return status.Grid(out, heading, lines, false)
}
