package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/internal/disk"
)

func newTaskSound() *cobra.Command {
	opt := struct {
		Out string `json:"out" help:"WAV file to write"`
		experiment.SoundOptions
	}{SoundOptions: experiment.SoundOptions{Seconds: 1, Example: -1, Given: 0.1, Temperature: 1, Seed: 1}}
	cmd := &cobra.Command{
		Use:   "sound DIR",
		Short: "Make sound with a network that predicts samples",
		Long: `Make a WAV file with the network of a run of the task speech in DIR: 8,000 samples a second, each drawn
from the network's output after all samples before it, in time and memory that do not grow with the length. The sound
begins from silence or, with --example, as a test recording does.`,
		Example: `  hippo task run speech --data data/fsdd --out runs/speech
  hippo task sound runs/speech --out spoken.wav
  hippo task sound runs/speech --example 3 --given 0.2 --seconds 0.6 --temperature 0.9 --out three.wav`,
		Args:              modelArgs(1, 1),
		ValidArgsFunction: completeFolders,
	}
	return configured(cmd, &opt, func(cmd *cobra.Command, args []string) error {
		if opt.Out == "" {
			return errors.New("out: found none, want the WAV file to write")
		}
		sound, err := experiment.Sound(cmd.Context(), args[0], opt.SoundOptions)
		if err != nil {
			return err
		}
		return disk.WriteBytes(opt.Out, sound)
	})
}
