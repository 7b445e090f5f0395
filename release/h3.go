package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/model"
)

// h3 is the family of H3 (arXiv:2212.14052) and of hippo's own models with MLPs, which have its names. Its tensors do
// not show the number of attention heads.
var h3 = family{
	hasConfig: func([]byte) bool { return true },
	config:    h3Config,
	hasNames:  func([]string) bool { return true },
	names:     h3Names,
	table:     h3Table,
	infer:     h3Infer,
}

// h3Type is its value of model_type, which most configurations do not have.
const h3Type = "h3"

// The official names of the embedding's weights and of learned positions.
const (
	h3Table     = "backbone.embeddings.word_embeddings.weight"
	h3Positions = "backbone.embeddings.position_embeddings.weight"
)

// h3Nested is the form that the official constructor takes some of its arguments in. The others have the names of
// model.Config.
type h3Nested struct {
	SSM *struct {
		Measure *string  `json:"measure"`
		Mode    *string  `json:"mode"`
		DState  *int     `json:"d_state"`
		HeadDim *int     `json:"head_dim"`
		DtMin   *float64 `json:"dt_min"`
		DtMax   *float64 `json:"dt_max"`
	} `json:"ssm_cfg"`
	Attn *struct {
		NumHeads *int     `json:"num_heads"`
		Rotary   *int     `json:"rotary_emb_dim"`
		Dropout  *float64 `json:"dropout"`
	} `json:"attn_cfg"`
}

// h3Config reads hippo's flat form, with the nested ssm_cfg and attn_cfg of the official release.
func h3Config(data []byte) (model.Config, error) {
	c := model.DefaultConfig()
	if err := json.Unmarshal(data, &c); err != nil {
		return c, err
	}
	var o h3Nested
	if err := json.Unmarshal(data, &o); err != nil {
		return c, err
	}
	if o.SSM != nil {
		if o.SSM.Mode != nil && *o.SSM.Mode != "diag" {
			return c, fmt.Errorf("ssm_cfg.mode: found %q, want \"diag\"", *o.SSM.Mode)
		}
		set(&c.Measure, o.SSM.Measure)
		set(&c.DState, o.SSM.DState)
		set(&c.HeadDim, o.SSM.HeadDim)
		set(&c.DtMin, o.SSM.DtMin)
		set(&c.DtMax, o.SSM.DtMax)
	}
	if o.Attn != nil {
		set(&c.NumHeads, o.Attn.NumHeads)
		set(&c.Rotary, o.Attn.Rotary)
		set(&c.AttnDropout, o.Attn.Dropout)
	}
	return c, nil
}

// h3Names maps the parameter names of the official H3 and HyenaDNA releases to the names they have in a file, for every
// layout in which those were published. The key is the official name, the value the name in the file. It depends on
// names only.
//
//   - Lightning files: names start with "model." and others (of metrics, of the loss) are left out.
//   - Files of models trained with checkpointed activations, as HyenaDNA's larger ones: ".mixer.layer." is ".mixer."
//     and ".mlp.layer." is ".mlp.".
//   - Older names: "s4seq.encoder." is "backbone.", "embedding." is "backbone.embeddings.word_embeddings." and
//     "backbone.norm." is "backbone.ln_0.".
//   - The older order of norms, recognized by ln_0: a layer was mixer, add, norm1, MLP, add, norm2 after a norm ln_0 in
//     front of all. The official order counts the same norms from the other side: ln_0 is norm1 of layer 0, norm1 of a
//     layer is norm2 of the same layer, norm2 of a layer is norm1 of the next one, and of the last layer it is ln_f.
//
// All other names stay as they are, so a file with the official names maps to itself. It is an error when two names of
// the file map to one or when the older order lacks a norm. Sources: load_state_dict in src/models/ssm_seq.py of the H3
// repository (arXiv:2212.14052), load_weights in huggingface.py of HyenaDNA's (arXiv:2306.15794).
func h3Names(names []string) (map[string]string, error) {
	const lightning = "model."
	isLightning := slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, lightning) })
	out := make(map[string]string, len(names))
	for _, inFile := range names {
		name, ok := strings.CutPrefix(inFile, lightning)
		if isLightning && !ok {
			continue
		}
		if err := addName(out, h3Rename(name), inFile); err != nil {
			return nil, err
		}
	}
	for _, kind := range []string{"weight", "bias"} {
		if _, ok := out["backbone.ln_0."+kind]; !ok {
			continue
		}
		if err := h3ReorderNorms(out, kind); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func h3Rename(name string) string {
	for _, r := range [][2]string{
		{"s4seq.encoder.", "backbone."},
		{"embedding.", "backbone.embeddings.word_embeddings."},
		{"backbone.norm.", "backbone.ln_0."}, // after the first: the file may have s4seq.encoder.norm.
	} {
		if rest, ok := strings.CutPrefix(name, r[0]); ok {
			name = r[1] + rest
		}
	}
	for _, part := range []string{"mixer", "mlp"} {
		name = strings.Replace(name, "."+part+".layer.", "."+part+".", 1)
	}
	return name
}

// h3ReorderNorms renames the norms of the older order, for the weights or for the biases.
func h3ReorderNorms(names map[string]string, kind string) error {
	layers := 0
	for name := range names {
		if rest, ok := strings.CutPrefix(name, "backbone.layers."); ok {
			index, _, _ := strings.Cut(rest, ".")
			if i, err := strconv.Atoi(index); err == nil && i < len(names) { // a layer has several names
				layers = max(layers, i+1)
			}
		}
	}
	norm := func(layer, n int) string { return fmt.Sprintf("backbone.layers.%d.norm%d.%s", layer, n, kind) }
	// In the order of computation the same norms are called, from old[k] to official[k]:
	old, official := []string{"backbone.ln_0." + kind}, []string{}
	for l := range layers {
		old = append(old, norm(l, 1), norm(l, 2))
		official = append(official, norm(l, 1), norm(l, 2))
	}
	official = append(official, "backbone.ln_f."+kind)
	inFile := make([]string, len(old))
	for k, name := range old {
		var ok bool
		if inFile[k], ok = names[name]; !ok {
			return fmt.Errorf("the file has %q, so it has the older order of norms, but %q is missing",
				names[old[0]], name)
		}
	}
	for _, name := range old {
		delete(names, name)
	}
	for k, name := range official {
		if err := addName(names, name, inFile[k]); err != nil {
			return err
		}
	}
	return nil
}

// h3Heads are the attention heads of the released models by d_model.
var h3Heads = map[int]int{768: 12, 1024: 16, 2048: 16, 2560: 20}

// h3Infer finds the configuration from the tensors.
func h3Infer(t tensors, heads int) (model.Config, error) {
	c := model.DefaultConfig()
	table := t.embedding(h3Table)
	if len(table) != 2 {
		names := t.file.Names()
		return c, fmt.Errorf("found %d tensors (%s) and no %s of two axes, "+
			"want weights of an H3, Mamba or HyenaDNA model, or a config.json beside the file that names its family",
			len(names), some(names), h3Table)
	}
	c.VocabSize, c.DModel = table[0], table[1]
	if c.VocabSize == 50264 { // GPT-2's 50257 padded to a multiple of 8
		c.VocabSize = 50257
	}
	if table := t.shape(h3Positions); len(table) == 2 {
		c.MaxPositions = table[0]
	}
	var err error
	c.NLayer, err = t.layers(func(i int, part string, s []int) {
		switch {
		case part == "mixer.Wqkv.weight":
			c.AttnIdx = append(c.AttnIdx, i)
		case strings.HasSuffix(part, ".inv_freq") && len(s) == 1:
			c.Rotary = 2 * s[0]
		case part == "mlp.fc1.weight" && len(s) == 2:
			c.DInner = s[0]
		case part == "mixer.ssm_k_kernel.kernel.B" && len(s) == 2:
			c.DState = s[1]
		case part == "mixer.D" && len(s) == 1 && s[0] > 0:
			c.HeadDim = c.DModel / s[0]
		}
	})
	if err != nil {
		return c, err
	}
	slices.Sort(c.AttnIdx)
	if len(c.AttnIdx) > 0 {
		if c.NumHeads = heads; heads == 0 {
			c.NumHeads = h3Heads[c.DModel]
		}
		if c.NumHeads == 0 {
			return c, errors.New("it has attention, whose number of heads its tensors do not tell: give it, or a " +
				"config.json beside the file")
		}
	}
	return c, nil
}
