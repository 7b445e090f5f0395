package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// WritePEFT writes the adapter of m into a folder, in the layout of the PEFT library. The base of m is the model at a
// path, and the modules are named as in that model's files. A matrix that is made of several tensors there becomes a
// change of each. A matrix that is a part of a tensor becomes a change of some of its rows. a describes the base.
func WritePEFT(dir string, m *model.Model, a *Adapter, path string) error {
	config := adapterConfig{
		Type: "LORA", Task: "CAUSAL_LM", Base: &a.Name, R: a.Rank, Alpha: a.Alpha, Dropout: a.Dropout,
		Bias: "none", Inference: true, InitWeights: true, RankPattern: map[string]int{},
		AlphaPattern: map[string]float64{},
	}
	var names []string
	var tensors []checkpoint.Tensor
	_, _, err := withModel(path, func(_ *model.Model, w model.Weights) error {
		for _, x := range changedTensors(m, func(parameter string) []model.Source { return sourcesOf(w, parameter) }) {
			key, ok := w.Keys[x.name]
			if x.stack > 0 || !ok {
				return fmt.Errorf("%s: found a change of experts that are stacked in one tensor, which the PEFT "+
					"library's LoRA of linear layers does not have", x.name)
			}
			module, all := strings.TrimSuffix(key, ".weight"), joined(x.parts)
			if names = append(names, module); all.rank != config.R {
				config.RankPattern[module] = all.rank
			}
			if alpha := all.scale * float64(all.rank); alpha != config.Alpha {
				config.AlphaPattern[module] = alpha
			}
			tensors = append(tensors,
				checkpoint.NewTensor(peftPrefix+module+".lora_A.weight", []int{all.rank, x.width}, all.a),
				checkpoint.NewTensor(peftPrefix+module+".lora_B.weight", []int{x.rows, all.rank}, all.b))
		}
		return nil
	})
	if err != nil {
		return err
	}
	config.Targets = names
	text, err := json.MarshalIndent(config, "", "  ")
	return errors.Join(err, disk.WriteFile(filepath.Join(dir, AdapterWeightsFile), func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, tensors, map[string]string{"format": "pt"})
	}), disk.WriteBytes(filepath.Join(dir, AdapterConfigFile), append(text, '\n')))
}
