package release

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/model"
)

// ggufKeys reads the values of a GGUF file that describe its model. errs contains the problems found so far.
type ggufKeys struct {
	arch   string
	values map[string]any
	shape  func(tensor string) []int // nil if there is none
	vector func(tensor string) ([]float32, error)
	errs   []error
}

// ggufKeysOf returns the architecture of a file, and a reader of its values.
func ggufKeysOf(f *checkpoint.File) (*ggufKeys, ggufArch, error) {
	name, _ := f.Values()["general.architecture"].(string)
	arch, ok := ggufArchs[name]
	if f.Values()[ggufType] == "adapter" {
		return nil, arch, fmt.Errorf("%s: found an adapter, want a model (--adapter names that of an adapter)",
			ggufType)
	}
	if !ok {
		return nil, arch, unknownArch(name, f)
	}
	return &ggufKeys{arch: name, values: f.Values(), shape: func(tensor string) []int {
		if x, ok := f.Tensor(tensor); ok {
			return x.Shape
		}
		return nil
	}, vector: func(tensor string) ([]float32, error) {
		x, _ := f.Tensor(tensor)
		return x.Float32()
	}}, arch, nil
}

// maxGGUFSize is the maximum of a size, so that products of two sizes fit into an int.
const maxGGUFSize = 1 << 30

func (k *ggufKeys) failf(key, format string, args ...any) {
	err := fmt.Errorf("%s: "+format, append([]any{key}, args...)...)
	if !slices.ContainsFunc(k.errs, func(e error) bool { return e.Error() == err.Error() }) { // key read twice
		k.errs = append(k.errs, err)
	}
}

// value returns the full name and the value of a key of the architecture. The value is nil if the file has none.
func (k *ggufKeys) value(key string) (full string, v any) {
	full = k.arch + "." + key
	return full, k.values[full]
}

// size returns a required size. After a problem it returns at least 1.
func (k *ggufKeys) size(key string, least int) int {
	full, v := k.value(key)
	n, ok := wholeNumber(v)
	if ok && n >= int64(least) && n <= maxGGUFSize {
		return int(n)
	}
	k.failf(full, "found %s, want a whole number from %d to %d", brief.Value(v), least, maxGGUFSize)
	return max(1, least)
}

// sizeOr returns the size of a key, or otherwise if the file has none.
func (k *ggufKeys) sizeOr(key string, least, otherwise int) int {
	if _, v := k.value(key); v == nil {
		return otherwise
	}
	return k.size(key, least)
}

// positive returns a required number above 0, with as few digits as the float32 in the file needs.
func (k *ggufKeys) positive(key string) float64 {
	full, v := k.value(key)
	x, ok := v.(float64)
	if !ok || !(x > 0) || math.IsInf(x, 0) {
		k.failf(full, "found %s, want a number above 0", brief.Value(v))
		return 1
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', -1, 32), 64)
	if err != nil {
		return x
	}
	return short
}

// epsilon returns the epsilon of the norms. Nemotron-H's files store it under the name of another norm.
func (k *ggufKeys) epsilon() float64 {
	const rms, other = "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"
	if _, v := k.value(rms); v == nil {
		if _, v := k.value(other); v != nil {
			return k.positive(other)
		}
	}
	return k.positive(rms)
}

// truth returns a boolean, false if the file has none.
func (k *ggufKeys) truth(key string) bool {
	full, v := k.value(key)
	b, ok := v.(bool)
	if v != nil && !ok {
		k.failf(full, "found %s, want true or false", brief.Value(v))
	}
	return b
}

// has reports whether the file has the given tensor.
func (k *ggufKeys) has(name string) bool { return k.shape(name) != nil }

// published returns the model that the file describes.
func (k *ggufKeys) published(arch ggufArch) (p published, err error) {
	c := newHFConfig(nil, model.MLPNone, k.epsilon())
	c.EmbedDropout, c.AttnDropout = 0, 0
	c.DModel, c.NLayer = k.size("embedding_length", 1), k.blocks()
	c.UntiedHead = k.has(ggufHead)
	c.VocabSize, c.PadVocab = k.vocabulary()
	p.config = c
	arch.model(k, &p)
	return p, errors.Join(k.errs...)
}

// vocabulary returns the number of tokens and the number of rows of the padded table. Unused tokens at the end are
// counted as padding.
func (k *ggufKeys) vocabulary() (size, pad int) {
	shape := k.shape("token_embd.weight")
	if len(shape) != 2 || shape[0] < 1 || shape[0] > maxGGUFSize {
		k.errs = append(k.errs, errors.New("token_embd.weight: missing or misshapen, want two axes"))
		return 1, 1
	}
	rows := shape[0]
	v, err := ggufVocabulary(k.values)
	switch {
	case err != nil:
		k.errs = append(k.errs, err)
		return rows, 1
	case v == nil:
		return rows, 1
	case len(v.Tokens) != rows:
		k.failf("tokenizer.ggml.tokens", "found %d, want one for each of the %d rows of token_embd.weight",
			len(v.Tokens), rows)
		return rows, 1
	}
	size = usedTokens(v)
	for pad = 1; pad < rows; pad *= 2 {
		if (size+pad-1)/pad*pad == rows {
			return size, pad
		}
	}
	return size, rows
}

// ggufMamba reads Mamba and, with dt_b_c_rms, Falcon-Mamba.
func ggufMamba(k *ggufKeys, p *published) {
	options := k.mamba()
	if k.truth("ssm.dt_b_c_rms") {
		options = options.with(given{"bcdt_norm": "rms", "norm_eps": p.config.LayerNormEpsilon})
	}
	p.config.Mixer = entry("mamba", options)
	p.names = ggufNames([]rename{to("norm.", "attn_norm.")}, map[string][]rename{"mamba": ggufMambaNames})
	p.forms = ggufMambaForms
}

// ggufMamba2 reads Mamba-2.
func ggufMamba2(k *ggufKeys, p *published) {
	p.config.Mixer = entry("mamba2", k.mamba2(p.config.LayerNormEpsilon))
	p.names = ggufNames([]rename{to("norm.", "attn_norm.")}, map[string][]rename{"mamba2": ggufMambaNames})
	p.forms = k.mamba2Forms()
}

// mamba returns the options of Mamba.
func (k *ggufKeys) mamba() given {
	d := k.size("embedding_length", 1)
	return k.common(d).with(given{"d_state": k.size("ssm.state_size", 1),
		"dt_rank": rank(auto(k.size("ssm.time_step_rank", 1)), d)})
}

// mamba2 returns the options of Mamba-2. In files with Mamba-2, time_step_rank is the number of heads.
func (k *ggufKeys) mamba2(eps float64) given {
	inner, heads := k.size("ssm.inner_size", 1), k.size("ssm.time_step_rank", 1)
	if inner%heads != 0 {
		k.failf(k.arch+".ssm.time_step_rank", "found %d, want a number of heads that divides ssm.inner_size %d", heads,
			inner)
	}
	return k.common(k.size("embedding_length", 1)).with(headDimOption(inner/heads, inner)).with(given{
		"d_state": k.size("ssm.state_size", 1), "ngroups": k.sizeOr("ssm.group_count", 1, 1), "norm_eps": eps})
}

// mamba2Forms returns the forms of the tensors of Mamba-2.
func (k *ggufKeys) mamba2Forms() ggufForms { return ggufMamba2Forms(k.sizeOr("ssm.group_count", 1, 1)) }

// common returns the options that Mamba and Mamba-2 share. Either the filters of all layers have a bias, or none.
func (k *ggufKeys) common(d int) given {
	return innerOptions(k.size("ssm.inner_size", 1), d).with(given{"d_conv": k.size("ssm.conv_kernel", 1),
		"conv_bias": k.hasInLayers("ssm_conv1d.bias")})
}

// wholeNumber returns a signed or unsigned integer of a file as an int64.
func wholeNumber(v any) (int64, bool) {
	switch n := v.(type) {
	case uint64:
		return int64(min(n, math.MaxInt64)), true
	case int64:
		return n, true
	}
	return 0, false
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
