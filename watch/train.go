package watch

import "github.com/hippo-ssm/hippo/train/text"

// TrainConfig returns the settings of a run that learns to watch: on bytes, in the order of the text, with the state
// carried on as in watching. preset is a shape; "" is a small one for logs, of recurrent layers alone: their state has
// a fixed size, and reading a byte costs the same however long the stream is.
func TrainConfig(preset, out string, steps int, logs ...string) (text.Config, error) {
	name := preset
	if name == "" {
		name = "mamba2-tiny"
	}
	cfg, err := text.Preset(name)
	if err != nil {
		return cfg, err
	}
	if preset == "" {
		cfg.Model.DModel, cfg.Model.NLayer = 64, 4
	}
	cfg.Data, cfg.Out, cfg.Binary, cfg.Documents = logs, out, true, "join"
	t := &cfg.Train
	t.Steps, t.CarryState, t.SampleEvery, t.EvalEvery = steps, true, 0, max(1, steps/5)
	t.SeqLen, t.BatchSize = 512, 2 // several lines, so that what one says of the next is learnt
	return cfg, nil
}
