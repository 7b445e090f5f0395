package release

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// hfConfigOf derives the config.json of a model that was not published in this layout. All its layers must be Mamba,
// Mamba-2 or RWKV-7. WriteHF compares the result with the model, so properties that these families do not have are an
// error there. The type of the weights is the common type of those in like, which is nil if unknown.
func hfConfigOf(m *model.Model, like *checkpoint.File) ([]byte, error) {
	c := &m.Config
	layers, err := layersOf(c)
	if err != nil {
		return nil, err
	}
	p := layers[0].mixers[0]
	at := slices.IndexFunc(m.Blocks, func(b *model.Block) bool {
		return b.Kind != "mamba" && b.Kind != "mamba2" && b.Kind != "rwkv7"
	})
	if at >= 0 {
		return nil, fmt.Errorf("found %s in layer %d of a model without a published configuration, want mamba, mamba2 "+
			"or rwkv7 alone, or --config with the config.json of a family that has it: %v", m.Blocks[at].Kind, at,
			Families())
	}
	fields := map[string]any{
		"hidden_size": c.DModel, "num_hidden_layers": len(layers), "vocab_size": c.PaddedVocab(),
		"tie_word_embeddings": m.Head == nil, "torch_dtype": torchType(like), "use_cache": true,
	}
	if p.name == "rwkv7" {
		maps.Copy(fields, rwkv7Derived(c, p))
	} else {
		maps.Copy(fields, mambaDerived(c, p))
	}
	data, err := json.MarshalIndent(fields, "", "  ")
	return append(bytes.ReplaceAll(data, []byte(`"`+infinity+`"`), []byte(infinity)), '\n'), err
}

// torchType returns the common type of all tensors of a file, or float32 if they differ.
func torchType(f *checkpoint.File) string {
	if f == nil {
		return "float32"
	}
	types := map[checkpoint.DType]bool{}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		types[x.DType] = true
	}
	switch {
	case len(types) == 1 && types[checkpoint.BF16]:
		return "bfloat16"
	case len(types) == 1 && types[checkpoint.F16]:
		return "float16"
	}
	return "float32"
}

// mambaDerived returns the fields of a config.json for a model with only Mamba or Mamba-2.
func mambaDerived(c *model.Config, p part) map[string]any {
	inner := p.size("d_inner")
	fields := map[string]any{
		"architectures": []string{"MambaForCausalLM"}, "model_type": "mamba",
		"hidden_act": "silu", "layer_norm_epsilon": c.LayerNormEpsilon, "state_size": p.size("d_state"),
		"conv_kernel": p.size("d_conv"), "use_bias": p.is("bias"), "expand": inner / c.DModel,
		"use_conv_bias": p.is("conv_bias"), "intermediate_size": inner, "residual_in_fp32": true, "rms_norm": true,
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
	return fields
}

// infinity is how Python's JSON writes this number.
const infinity = "Infinity"
