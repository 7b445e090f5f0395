package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/convert"
)

func newConvert() *cobra.Command {
	opt := convert.Options{Type: convert.Types[0], Form: convert.ONNXForms[0]}
	cmd := &cobra.Command{
		Use:   "convert FILE DIR",
		Short: "Convert a checkpoint to a model's folder, or a model to a GGUF or ONNX file",
		Long: `Write the model of a checkpoint FILE to the folder DIR (config.json, model.safetensors, tokenizer.json).
FILE is a .pt of torch.save in the new or the old format, a Lightning .ckpt, or safetensors, with the official parameter
names or the older ones, or the name of a model that hippo pull has fetched. Nothing in FILE is executed. Every tensor
is checked: missing, unexpected, misshapen and non-finite ones are listed.

The shape of the model comes from --config, else from a config.json beside FILE, else from the tensors. The tokenizer
comes from --tokenizer, else from a tokenizer.json beside FILE; a model with the vocabulary of GPT-2 gets GPT-2's, one
with that of HyenaDNA its own. A .gguf file holds both. Files of chat are copied: tokenizer_config.json,
chat_template.jinja, generation_config.json.

--to hf writes DIR in the layout of the transformers library. The first name is a model's folder, a training run, a GGUF
file or a FILE as above. Names and configuration are those of the model's family, bit for bit where nothing changed;
a Mamba or Mamba-2 that you trained gets a configuration. --config names that of another model of the same shape.

If the second name ends in .gguf, the first is a model's folder, a training run's, or a FILE as above, and the model is
written as a GGUF file that llama.cpp runs, with tokenizer and chat template: Mamba, Mamba-2, and the hybrids that it
has. --type sets the type of matrices, in q4_k_m and q4_0 with more bits for some; vectors, norms, filters and A stay
float32. --to hf writes the layout of the transformers library from such a file again.

If the second name ends in .onnx, the first is a run of hippo fit or hippo forecast, and its network is written for ONNX
Runtime and its like, with everything around it: numbers as they are in your data go in, predictions come out. --form
step writes a model that takes a row and a state, and returns a prediction and the next state. docs/fit.md has both.`,
		Example: `  hippo convert H3-hybrid-125M/model.pt models/h3-125m
  hippo convert last.ckpt models/mine --heads 8 --tokenizer my/tokenizer.json
  hippo convert model.pt models/mine --config config.json --force
  hippo convert runs/mamba mamba.gguf --type q8_0
  hippo convert models/granite granite.gguf --type q4_k_m
  hippo convert runs/tuned models/tuned --to hf
  hippo convert runs/machine machine.onnx --form step`,
		Args:              wantArgs(2, 2),
		ValidArgsFunction: completeArgs(completeFiles(checkpoint.Endings...), completeFolders),
	}
	f, layout := cmd.Flags(), ""
	f.StringVar(&opt.Type, "type", opt.Type, "type of the matrices of a .gguf file: "+strings.Join(convert.Types, ", "))
	completeFlag(cmd, "type", cobra.FixedCompletions(convert.Types, cobra.ShellCompDirectiveNoFileComp))
	f.StringVar(&opt.Form, "form", opt.Form, "form of an .onnx file: whole (sequences) or step (row by row)")
	completeFlag(cmd, "form", cobra.FixedCompletions(convert.ONNXForms, cobra.ShellCompDirectiveNoFileComp))
	f.StringVar(&layout, "to", convert.Layouts[0], "layout of DIR: hippo, or hf (the transformers library)")
	completeFlag(cmd, "to", cobra.FixedCompletions(convert.Layouts, cobra.ShellCompDirectiveNoFileComp))
	f.StringVar(&opt.Shape.Config, "config", "", "config.json with the shape of the model")
	f.IntVar(&opt.Shape.Heads, "heads", 0, "heads of attention, which tensors do not show; 0: those of the "+
		"configuration or of the release of this width")
	f.StringVar(&opt.Tokenizer, "tokenizer", "", "bytes, dna, gpt2, or the path of a tokenizer.json")
	f.StringVar(&opt.End, "end", "", "one more token that ends a reply, if neither the template nor a file names it")
	f.BoolVar(&opt.Force, "force", false, "replace the model in DIR")
	completeFlag(cmd, "tokenizer", completeTokenizer)
	completeFlag(cmd, "config", completeFiles("json"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(convert.Types, opt.Type) {
			return fmt.Errorf("type: found %q, want one of %s", opt.Type, strings.Join(convert.Types, ", "))
		}
		toONNX := strings.HasSuffix(args[1], ".onnx")
		for _, name := range []string{"form", "type", "config", "heads", "tokenizer", "end"} {
			if of := map[bool]string{true: "only", false: "not"}[name == "form"]; cmd.Flags().Changed(name) &&
				(name == "form") != toONNX {
				return fmt.Errorf("--%s: found it for %s, but it is %s for .onnx files", name, args[1], of)
			}
		}
		if toONNX {
			r, err := convert.ToONNX(args[0], args[1], opt)
			if err != nil {
				return err
			}
			return r.Print(cmd.OutOrStdout())
		}
		find, write := modelFile, convert.FromCheckpoint
		switch {
		case strings.HasSuffix(args[1], ".gguf"):
			find, write = modelPath, convert.ToGGUF
		case layout == "hf":
			find, write = modelPath, convert.ToHF
		case layout != "hippo":
			return fmt.Errorf("to: found %q, want one of %s", layout, strings.Join(convert.Layouts, ", "))
		}
		path, err := find(args[0])
		if err != nil {
			return err
		}
		r, err := write(cmd.Context(), path, args[1], opt)
		if err != nil {
			return err
		}
		return r.Print(cmd.OutOrStdout())
	}
	return cmd
}
