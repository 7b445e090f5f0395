package release

import (
	"slices"

	"github.com/hippo-ssm/hippo/model"
)

// ggufRWKV7 reads RWKV-7. The mixtures of a layer are rows of one tensor, and r_k is a vector. The tensors v of the
// first layer have no effect. conversion/rwkv.py, and hippo too, writes the tensors a there.
func ggufRWKV7(k *ggufKeys, p *published) {
	head := k.size("wkv.head_size", 1)
	layer := entry("rwkv7", given{"head_size": head, "w_rank": k.size("attention.decay_lora_rank", 1),
		"a_rank": k.size("attention.iclr_lora_rank", 1), "g_rank": k.size("attention.gate_lora_rank", 1),
		"v_rank": k.size("attention.value_residual_mix_lora_rank", 1)})
	k.layers(p, "channel-mix", func(int) string { return layer })
	p.config.Norm, p.config.EmbedNorm = model.NormLayer, true
	p.names = ggufNames(append(layerNorms("attn_norm", "attn_norm_2"), to("mlp.x_k", "channel_mix_lerp_k.weight"),
		to("mlp.", "channel_mix_")), map[string][]rename{"rwkv7": ggufRWKV7Mixer()})
	p.names.entry = "token_embd_norm."
	p.names.ignored = append(p.names.ignored, "blk.0.time_mix_v0.", "blk.0.time_mix_v1.", "blk.0.time_mix_v2.")
	p.forms = ggufForms{"time_mix_lerp_fused.weight": {axes: fusedAxes},
		"time_mix_r_k.weight": {axes: rowsAxes(head)}}
}

// ggufRWKV7Copies maps the tensors that are written a second time to their second names.
var ggufRWKV7Copies = map[string]string{
	"blk.0.time_mix_a0.weight": "blk.0.time_mix_v0.weight", "blk.0.time_mix_a1.weight": "blk.0.time_mix_v1.weight",
	"blk.0.time_mix_a2.weight": "blk.0.time_mix_v2.weight",
}

// ggufRWKV7Mixer returns the names of the tensors of time mixing.
func ggufRWKV7Mixer() []rename {
	const at = "time_mix_"
	var names []rename
	for i, s := range []string{"r", "w", "k", "v", "a", "g"} {
		names = append(names, rename{"x_" + s, pieces(at+"lerp_fused.weight", i, 1, 6)})
	}
	for _, s := range []string{"w0", "a0", "v0", "k_k", "k_a", "r_k"} {
		names = append(names, to(s, at+s+".weight"))
	}
	return append(names, to("ln_x.", at+"ln."), to("", at))
}

// ggufAxes converts between the axes of a published tensor and the axes in a file. Unexpected shapes stay unchanged, so
// that the error reports the shape that was found.
type ggufAxes struct{ own, file func(shape []int) []int }

// fusedAxes are the axes of six concatenated vectors: (6·d) is stored as (6, 1, 1, d).
var fusedAxes = &ggufAxes{
	own: func(s []int) []int {
		if len(s) == 4 && slices.Equal(s[:3], []int{6, 1, 1}) {
			return []int{6 * s[3]}
		}
		return s
	},
	file: func(s []int) []int { return []int{6, 1, 1, s[0] / 6} },
}

// rowsAxes returns the axes of a matrix that is stored as a vector: (rows, columns) is stored as (rows·columns).
func rowsAxes(columns int) *ggufAxes {
	return &ggufAxes{
		own: func(s []int) []int {
			if len(s) == 1 && s[0]%columns == 0 {
				return []int{s[0] / columns, columns}
			}
			return s
		},
		file: func(s []int) []int { return []int{s[0] * s[1]} },
	}
}
