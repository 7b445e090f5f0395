package watch

import "github.com/hippo-ssm/hippo/train/text"

// TrainConfig returns the configuration of a run that trains a model for watching: on bytes, in the order of the text,
// with the state carried over as in watching. preset is the name of a shape. "" means a small one for logs that has
// only recurrent layers: their state has a fixed size, and reading a byte costs the same however long the stream is.
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
	t.SeqLen, t.BatchSize = 512, 2 // several lines, so that the model learns how a line depends on earlier ones
	return cfg, nil
}
