package release

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/model"
)

// hfConfigOf derives the config.json of a model that was not published: one of Mamba or Mamba-2 alone. WriteHF compares
// it with the model, so what these families do not have is an error there.
func hfConfigOf(m *model.Model) ([]byte, error) {
	c := &m.Config
	layers, err := layersOf(c)
	if err != nil {
		return nil, err
	}
	p := layers[0].mixers[0]
	at := slices.IndexFunc(m.Blocks, func(b *model.Block) bool { return b.Kind != "mamba" && b.Kind != "mamba2" })
	if at >= 0 {
		return nil, fmt.Errorf("found %s in layer %d of a model without a published configuration, want mamba or "+
			"mamba2 alone, or --config with the config.json of a family that has it: %v", m.Blocks[at].Kind, at,
			Families())
	}
	inner := p.size("d_inner")
	fields := map[string]any{
		"architectures": []string{"MambaForCausalLM"}, "model_type": "mamba", "hidden_size": c.DModel,
		"num_hidden_layers": len(layers), "vocab_size": c.PaddedVocab(), "tie_word_embeddings": m.Head == nil,
		"hidden_act": "silu", "layer_norm_epsilon": c.LayerNormEpsilon, "state_size": p.size("d_state"),
		"conv_kernel": p.size("d_conv"), "use_bias": p.is("bias"), "expand": inner / c.DModel,
		"use_conv_bias": p.is("conv_bias"), "intermediate_size": inner, "torch_dtype": "float32",
		"residual_in_fp32": true, "rms_norm": true, "use_cache": true,
	}
	switch {
	case p.name == "mamba2":
		headDim := p.size("headdim")
		fields["architectures"], fields["model_type"] = []string{"Mamba2ForCausalLM"}, p.name
		fields["head_dim"], fields["num_heads"], fields["n_groups"] = headDim, inner/headDim, p.size("ngroups")
		fields["use_bias"], fields["chunk_size"] = p.is("in_bias") && p.is("out_bias"), 256
		switch low, high := p.number("dt_low"), p.number("dt_high"); {
		case high > 0:
			fields["time_step_limit"] = []float64{low, high}
		case low > 0:
			fields["time_step_limit"] = []any{low, infinity}
		}
		if p.text("grouped_norm") == "false" {
			fields["grouped_norm"] = false
		}
	default:
		fields["time_step_rank"] = p.size("dt_rank")
		if p.text("bcdt_norm") == "rms" {
			fields["architectures"], fields["model_type"] = []string{"FalconMambaForCausalLM"}, "falcon_mamba"
			fields["mixer_rms_eps"] = p.number("norm_eps")
		}
	}
	data, err := json.MarshalIndent(fields, "", "  ")
	return append(bytes.ReplaceAll(data, []byte(`"`+infinity+`"`), []byte(infinity)), '\n'), err
}

// infinity is a number in Python's JSON.
const infinity = "Infinity"
