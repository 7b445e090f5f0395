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

// h3 is the family of H3 (arXiv:2212.14052) and of hippo's own models with MLPs, which use its names. The number of
// attention heads cannot be found from its tensors.
var h3 = family{
	hasConfig: func([]byte) bool { return true },
	config:    h3Config,
	hasNames:  func([]string) bool { return true },
	names:     h3Names,
	table:     h3Table,
	infer:     h3Infer,
}

// h3Type is the family's model_type, which most configurations do not have.
const h3Type = "h3"

// The official names of the weights of the embedding and of the learned positions.
const (
	h3Table     = "backbone.embeddings.word_embeddings.weight"
	h3Positions = "backbone.embeddings.position_embeddings.weight"
)

// h3Nested is the nested form in which the official constructor takes some arguments. The others have the names of
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

// h3Config parses hippo's flat form, or the official release's form with nested ssm_cfg and attn_cfg.
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

// h3Names maps the official parameter names of the H3 and HyenaDNA releases to the names in a file, for every layout in
// which they were published. It uses only the names.
//
//   - Lightning files: names start with "model.". Other names (of metrics, of the loss) are left out.
//   - Files of models trained with checkpointed activations, such as the larger HyenaDNA models: ".mixer.layer." means
//     ".mixer." and ".mlp.layer." means ".mlp.".
//   - Older names: "s4seq.encoder." means "backbone.", "embedding." means "backbone.embeddings.word_embeddings." and
//     "backbone.norm." means "backbone.ln_0.".
//   - The older order of norms, recognized by ln_0: a norm ln_0 came before all layers, and a layer was mixer, add,
//     norm1, MLP, add, norm2. The official order assigns the same norms to the next part: ln_0 is norm1 of layer 0,
//     norm1 of a layer is norm2 of the same layer, norm2 of a layer is norm1 of the next one, and norm2 of the last
//     layer is ln_f.
//
// All other names stay the same, so the official names map to themselves. It is an error if two names of the file map
// to one, or if the older order lacks a norm. Sources: load_state_dict in src/models/ssm_seq.py of the H3 repository
// (arXiv:2212.14052), load_weights in huggingface.py of the HyenaDNA repository (arXiv:2306.15794).
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
		{"backbone.norm.", "backbone.ln_0."}, // after the first pair: the file may have s4seq.encoder.norm.
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
	// The same norms in the order of computation: old[k] is called official[k].
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

// h3Heads maps d_model to the number of attention heads of the released models.
var h3Heads = map[int]int{768: 12, 1024: 16, 2048: 16, 2560: 20}

// h3Infer infers the configuration from the tensors.
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
