package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/inspect"
	"github.com/hippo-ssm/hippo/internal/brief"
)

func newInfo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "info MODEL",
		Short: "Describe a model, run, checkpoint or tokenizer",
		Long: `Describe MODEL, a path or the name of a published model. Weights are not loaded.

  a model's folder or a training run   family, layers, parameters, precision, size of the state, tokenizer
  a run of hippo task, fit, forecast   network, data or task, and score
  a checkpoint                         its tensors, and the model that they are read as: .pt, .bin, .ckpt,
                                       .safetensors, .gguf, or the index of several
  a tokenizer.json or config.json      what it defines
  a published model (hippo pull)       all of the first, its commit, its files and its configuration

If only a part can be read, that part is printed with the reason.`,
		Example: `  hippo info runs/tiny
  hippo info H3-125M/model.pt
  hippo info org/name:Q8_0
  hippo info models/granite --json
  hippo info runs/task/recall/h3-seed1`,
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeArgs(completeFiles(append(checkpoint.Endings, "json")...)),
	}
	jsonFlag(cmd, oneObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, problem := describe(args[0])
		if r == nil || r.Kind == "" { // there is nothing to describe
			return problem
		}
		if problem != nil {
			r.Problem = brief.Error(problem).Error()
		}
		return errors.Join(show(cmd, r, r.Print), problem)
	}
	return cmd
}

// describe inspects a path or a published model.
func describe(name string) (*inspect.Report, error) {
	path, err := modelPath(name)
	if err != nil {
		return nil, err
	}
	if path == name {
		return inspect.Path(path)
	}
	published, cache, err := publishedName(name)
	if err != nil {
		return nil, err
	}
	return inspect.Published(path, cache, published)
}

// newShow returns the command show, the old name for what hippo info prints about a published model.
func newShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show the files and the configuration of a published model",
		Long:              "Show the files and the configuration of the published model NAME. hippo info describes it.",
		Example:           "  hippo show org/name\n  hippo show org/name:Q8_0 --json",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeArgs(completePublished),
	}
	jsonFlag(cmd, oneObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if info, err := os.Stat(args[0]); err == nil {
			kind := "file"
			if info.IsDir() {
				kind = "folder"
			}
			return fmt.Errorf("%s: found a %s, want the name of a published model (hippo info describes a %s)", args[0],
				kind, kind)
		}
		name, cache, err := publishedName(args[0])
		if err != nil {
			return err
		}
		cached, err := cache.Show(name)
		if err != nil {
			return err
		}
		return show(cmd, cached, func(out io.Writer) error { return inspect.PrintCached(out, cached) })
	}
	return cmd
}
