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
	plan, err := c.Plan()
	if err != nil {
		return nil, err
	}
	kind, o, err := mixerOptions(plan[0])
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(m.Blocks, func(b *model.Block) bool { return b.Kind != "mamba" && b.Kind != "mamba2" })
	if at >= 0 {
		return nil, fmt.Errorf("found %s in layer %d of a model without a published configuration, want mamba or "+
			"mamba2 alone, or --config with the config.json of a family that has it: %v", m.Blocks[at].Kind, at,
			Families())
	}
	inner := o.size("d_inner")
	if inner == 0 {
		inner = o.size("expand") * c.DModel
	}
	fields := map[string]any{
		"architectures": []string{"MambaForCausalLM"}, "model_type": "mamba", "hidden_size": c.DModel,
		"num_hidden_layers": len(plan), "vocab_size": c.PaddedVocab(), "tie_word_embeddings": m.Head == nil,
		"hidden_act": "silu", "layer_norm_epsilon": c.LayerNormEpsilon, "state_size": o.size("d_state"),
		"conv_kernel": o.size("d_conv"), "use_bias": o.text("bias") == "true", "expand": inner / c.DModel,
		"use_conv_bias": o.text("conv_bias") == "true", "intermediate_size": inner, "torch_dtype": "float32",
		"residual_in_fp32": true, "rms_norm": true, "use_cache": true,
	}
	switch {
	case kind == "mamba2":
		headDim := o.size("headdim")
		if headDim == 0 {
			headDim = min(officialHeadDim, inner/4)
		}
		fields["architectures"], fields["model_type"] = []string{"Mamba2ForCausalLM"}, kind
		fields["head_dim"], fields["num_heads"], fields["n_groups"] = headDim, inner/headDim, o.size("ngroups")
		fields["chunk_size"] = 256
		switch low, high := o.number("dt_low"), o.number("dt_high"); {
		case high > 0:
			fields["time_step_limit"] = []float64{low, high}
		case low > 0:
			fields["time_step_limit"] = []any{low, infinity}
		}
		if o.text("grouped_norm") == "false" {
			fields["grouped_norm"] = false
		}
	default:
		if fields["time_step_rank"] = o.size("dt_rank"); fields["time_step_rank"] == 0 {
			fields["time_step_rank"] = (c.DModel + 15) / 16
		}
		if o.text("bcdt_norm") == "rms" {
			fields["architectures"], fields["model_type"] = []string{"FalconMambaForCausalLM"}, "falcon_mamba"
			fields["mixer_rms_eps"] = o.number("norm_eps")
		}
	}
	data, err := json.MarshalIndent(fields, "", "  ")
	return append(bytes.ReplaceAll(data, []byte(`"`+infinity+`"`), []byte(infinity)), '\n'), err
}

// infinity is a number in Python's JSON.
const infinity = "Infinity"
