package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/convert"
	"github.com/hippo-ssm/hippo/generate"
)

// adapterFlag adds the flag --adapter to a command that uses one model.
func adapterFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "adapter", "",
		"folder of an adapter of the model: of hippo train --lora.rank, or of the PEFT library (LoRA)")
	completeFlag(cmd, "adapter", completeFolders)
}

// draftFlag adds the flag --draft to a command that generates text. drafts returns the drafts that the flag selects for
// a model.
func draftFlag(cmd *cobra.Command) (drafts func(m *hippo.Model) (generate.Drafts, error)) {
	by := cmd.Flags().String("draft", "", "guess what follows, and write the same text faster where guesses are right:"+
		" by "+hippo.NGram+", from what the text repeats, by "+hippo.MTP+", the model's own head for it, or by a "+
		"small MODEL with the same tokens")
	completeFlag(cmd, "draft", completeFolders)
	return func(m *hippo.Model) (generate.Drafts, error) {
		return m.Draft(*by, func(name string) (*hippo.Model, error) {
			return loadModel(name, "", hippo.Precision(hippo.Stored))
		})
	}
}

// loadModel loads the named model with the adapter in a folder, or without one if adapter is "". The name may also be
// that of an adapter. Its model is then looked for in the recorded folder and by its name.
func loadModel(name, adapter string, options ...hippo.LoadOption) (*hippo.Model, error) {
	path, err := modelPath(name)
	if err != nil {
		return nil, err
	}
	if adapter == "" {
		base, err := hippo.AdapterBase(path, modelPath)
		if err != nil {
			return nil, err
		}
		if base != path {
			path, adapter = base, path
		}
	}
	if adapter != "" {
		options = append(options, hippo.Adapter(adapter))
	}
	m, err := hippo.Load(path, options...)
	if err == nil && m.Net().Divided() != "" {
		noteDevice(m.Net().Divided())
	}
	return m, err
}

func newMerge() *cobra.Command {
	var adapter string
	var force bool
	cmd := &cobra.Command{
		Use:   "merge MODEL OUT",
		Short: "Merge an adapter into its model",
		Long: `Write MODEL with the changes of an adapter in its weights, W + alpha/r·B·A, to the folder OUT: a model in
float32 that needs no adapter. MODEL is a model together with --adapter, or the folder of an adapter alone, such as a
run of hippo train --lora.rank: its model is found where it was.`,
		Example: `  hippo merge runs/letters models/letters
  hippo merge runs/tiny --adapter runs/letters models/letters`,
		Args:              wantArgs(2, 2),
		ValidArgsFunction: completeArgs(completeFolders, completeFolders),
	}
	adapterFlag(cmd, &adapter)
	cmd.Flags().BoolVar(&force, "force", false, "replace the model in OUT")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := convert.CheckOut(args[1], force); err != nil {
			return err
		}
		m, err := loadModel(args[0], adapter)
		if err != nil {
			return err
		}
		if m.AdapterDir() == "" {
			return fmt.Errorf("%s: found a model without an adapter, want --adapter, or the folder of an adapter",
				args[0])
		}
		done, err := convert.Merge(cmd.Context(), m, args[1])
		if err == nil {
			fmt.Fprintln(os.Stderr, done)
		}
		return err
	}
	return cmd
}
