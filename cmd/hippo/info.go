package main

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/inspect"
	"github.com/hippo-ssm/hippo/internal/brief"
)

func newInfo() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info PATH",
		Short: "Describe a model",
		Long: `Describe what is at PATH, or at the name of a published model: the model in a folder or of a training
run, with its family, layers, parameters, precision, the size of its state and its tokenizer; the network, task and
score of a task's run; the tensors of a checkpoint (.pt, .bin, .ckpt, .safetensors, .gguf, or the index of several), and
the model that they are read as; a tokenizer.json. What does not fit is told, and why. Weights are not loaded.`,
		Example: `  hippo info runs/tiny
  hippo info H3-125M/model.pt
  hippo info models/granite --json
  hippo info runs/task/recall/h3-seed1`,
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeArgs(completeFiles(append(checkpoint.Endings, "json")...)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := modelPath(args[0])
			if err != nil {
				return err
			}
			r, problem := inspect.Path(path)
			if r.Kind == "" { // nothing was found that can be described
				return problem
			}
			if asJSON {
				if problem != nil {
					r.Problem = brief.Error(problem).Error()
				}
				return errors.Join(json.NewEncoder(cmd.OutOrStdout()).Encode(r), problem)
			}
			return errors.Join(r.Print(cmd.OutOrStdout()), problem)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}
