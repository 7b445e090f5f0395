package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/model"
)

// rwkv7Pth is the family of RWKV-7 in the layout of its authors: a .pth without a configuration. The shapes of the
// tensors determine the sizes.
var rwkv7Pth = family{
	hasConfig: func([]byte) bool { return false },
	hasNames: func(names []string) bool {
		return slices.ContainsFunc(names, func(s string) bool {
			return strings.HasPrefix(s, "blocks.") && strings.Contains(s, ".att.")
		})
	},
	names: func(names []string) (map[string]string, error) {
		keys := map[string]string{}
		for _, name := range names {
			keys[name] = name
		}
		return keys, nil
	},
	table: "emb.weight",
	infer: rwkv7Infer,
	hf:    rwkv7PthNames,
}

// rwkv7PthNames returns the authors' names. Low-rank matrices are (in, out), vectors of a layer are (1, 1, d). The
// first layer may have tensors for mixing in its own values, which have no effect.
func rwkv7PthNames() hfNames {
	n := hfNames{embedding: []string{"emb."}, entry: "blocks.0.ln0.", norm: "ln_out.", head: "head.weight",
		layers: "blocks.", layer: append(layerNorms("ln1", "ln2"), to("mlp.", "ffn.")),
		lone:    []string{".att.k_k", ".att.k_a", ".ffn.x_k"},
		ignored: []string{"blocks.0.att.v0", "blocks.0.att.v1", "blocks.0.att.v2"},
	}
	var names []rename
	for _, s := range []string{"w", "a", "v", "g"} {
		for _, i := range []string{"1", "2"} {
			names = append(names, to(s+i+".weight", "att."+s+i))
			n.turned = append(n.turned, ".att."+s+i)
		}
		n.lone = append(n.lone, ".att."+s+"0")
	}
	for _, s := range []string{"r", "w", "k", "v", "a", "g"} {
		n.lone = append(n.lone, ".att.x_"+s)
	}
	n.mixers = map[string][]rename{"rwkv7": append(names, to("", "att."))}
	return n
}

// rwkv7Infer infers the configuration from the tensors.
func rwkv7Infer(t tensors, _ int) (model.Config, error) {
	wanted := func(name string) ([]int, error) {
		shape := t.shape(name)
		if len(shape) != 2 {
			return []int{1, 1}, fmt.Errorf("%s: found shape %v, want two axes", name, shape)
		}
		return shape, nil
	}
	if t.shape("blocks.0.att.r_k") == nil {
		return model.Config{}, errors.New("blocks.0.att.r_k: missing, want the tensors of RWKV-7: those of earlier " +
			"versions are not read")
	}
	layers := 0
	for ; t.shape(fmt.Sprintf("blocks.%d.att.r_k", layers)) != nil; layers++ {
	}
	table, err := wanted("emb.weight")
	heads, err1 := wanted("blocks.0.att.r_k")
	inner, err2 := wanted("blocks.0.ffn.key.weight")
	err = errors.Join(err, err1, err2)
	options := given{"head_size": heads[1]}
	for _, s := range []string{"w", "a", "g", "v"} {
		block := 0
		if s == "v" {
			block = 1 // the first layer may have it, without effect
		}
		if block < layers {
			shape, failed := wanted(fmt.Sprintf("blocks.%d.att.%s1", block, s))
			options[s+"_rank"], err = shape[1], errors.Join(err, failed)
		}
	}
	if err != nil {
		return model.Config{}, err
	}
	c := newRWKV7Config(slices.Repeat([]string{entry("rwkv7", options)}, layers), inner[0], 1e-5)
	c.VocabSize, c.DModel, c.PadVocab, c.UntiedHead = table[0], table[1], 1, true
	c.EmbedDropout, c.AttnDropout = 0, 0
	return c, nil
}
