package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/model"
)

// hyena is the family of HyenaDNA (arXiv:2306.15794). Its tensors have the names of H3. They do not determine the
// window of the filters, so a config.json is required. The -hf releases are not supported.
var hyena = family{
	unread:    map[string]string{"hyenadna": hyenaHF},
	hasConfig: isHyenaConfig,
	config:    parseHyenaConfig,
	hasNames:  isHyenaNames,
	names:     hyenaNames,
	table:     h3Table,
	extra:     hyenaExtra,
	infer: func(tensors, int) (model.Config, error) {
		return model.Config{}, errors.New("it is a Hyena model, whose window its tensors do not tell: give its " +
			"config.json, or have it beside the file")
	},
}

// hyenaHF is the error for the -hf releases, which store the same model with other names of fields and tensors.
const hyenaHF = "the layout of HyenaDNA's -hf releases, which is not read; want that of the first one: weights.ckpt " +
	"and a config.json with a layer"

// hyenaHFPrefix is the prefix of tensor names in -hf releases.
const hyenaHFPrefix = "hyena.backbone."

func isHyenaNames(names []string) bool {
	return slices.ContainsFunc(names, func(s string) bool {
		return strings.HasPrefix(s, hyenaHFPrefix) || strings.Contains(s, ".filter_fn.")
	})
}

func hyenaNames(names []string) (map[string]string, error) {
	if slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, hyenaHFPrefix) }) {
		return nil, fmt.Errorf("found tensors %s…, %s", hyenaHFPrefix, hyenaHF)
	}
	return h3Names(names)
}

// sharedFreq matches the names of a filter's frequencies. A file has one copy for each layer of the filter.
var sharedFreq = regexp.MustCompile(`\.implicit_filter\.\d+\.freq$`)

// hyenaExtra accepts further copies of a filter's frequencies if they are equal to the first.
func hyenaExtra(t tensors, key string) error {
	if !sharedFreq.MatchString(key) {
		return errExtra
	}
	if first := sharedFreq.ReplaceAllString(key, ".implicit_filter.1.freq"); !t.same(key, first) {
		return fmt.Errorf("differs from %s, want the same (shared) frequencies", first)
	}
	return nil
}

// hyenaLayer is the field that only configurations of HyenaDNA have.
type hyenaLayer struct {
	Layer map[string]json.RawMessage `json:"layer"`
}

func isHyenaConfig(data []byte) bool {
	var c struct {
		Layer any `json:"layer"`
	}
	return json.Unmarshal(data, &c) == nil && c.Layer != nil
}

// parseHyenaConfig parses H3's form with the field layer.
func parseHyenaConfig(data []byte) (model.Config, error) {
	c, err := h3Config(data)
	if err != nil {
		return c, err
	}
	var o hyenaLayer
	if err = json.Unmarshal(data, &o); err == nil {
		c.Mixer, err = hyenaEntry(o.Layer)
	}
	return c, err
}

// hyenaDNAShift is the default shift of the window in a configuration of HyenaDNA, as in the code that was published
// with its weights (standalone_hyenadna.py). In the code that trained them it is 0.
const hyenaDNAShift = 0.05

// hyenaOptions lists the options of the mixer that the layer of a HyenaDNA configuration may set, under the same names.
var hyenaOptions = []string{"emb_dim", "fast_decay_pct", "filter_order", "l_max", "modulate", "num_inner_mlps", "order",
	"short_filter_order", "shift", "slow_decay_pct", "target", "w"}

// hyenaDefaults contains the official constructor's defaults that differ from the mixer's.
var hyenaDefaults = map[string]string{"emb_dim": "3", "w": "1", "shift": fmt.Sprint(hyenaDNAShift)}

// hyenaOnly contains the arguments of the official constructor for which only one value is supported.
var hyenaOnly = map[string]string{
	"_name_": `"hyena"`, "num_heads": "1", "inner_factor": "1", "num_blocks": "1", "outer_mixing": "false",
	"post_order_ffn": "false", "activation": `"id"`, "normalized": "false", "bias": "true", "bidirectional": "false",
	"dropout": "0", "filter_dropout": "0", "filter_cls": `"hyena-filter"`, "modulation_lr": "0", "train_freq": "true",
}

// hyenaEntry returns the entry of a list of layers for the layer of a HyenaDNA configuration. It ignores settings that
// do not change the results (learning rates, fused kernels). An lr_pos_emb of 0 means that positional features are not
// trained.
func hyenaEntry(layer map[string]json.RawMessage) (string, error) {
	for _, key := range slices.Sorted(maps.Keys(hyenaOnly)) {
		if got, ok := layer[key]; ok && !sameJSON(string(got), hyenaOnly[key]) {
			return "", fmt.Errorf("layer.%s: found %s, want %s", key, got, hyenaOnly[key])
		}
	}
	options := maps.Clone(hyenaDefaults)
	options["train_pos_emb"] = "true"
	for _, key := range hyenaOptions {
		if got, ok := layer[key]; ok {
			options[key] = string(got)
		}
	}
	if lr, ok := layer["lr_pos_emb"]; ok && sameJSON(string(lr), "0") {
		options["train_pos_emb"] = "false"
	}
	var list []string
	for _, key := range slices.Sorted(maps.Keys(options)) {
		list = append(list, key+"="+options[key])
	}
	return "hyena(" + strings.Join(list, ",") + ")", nil
}

// sameJSON reports whether two simple JSON values are equal.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && x == y
}
