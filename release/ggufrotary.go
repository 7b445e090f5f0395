package release

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
)

// ggufDivisors is the name of the tensor with the divisors of the frequencies of rotary positions: Llama 3's scaling.
const ggufDivisors = "rope_freqs.weight"

// rotated adds rotary positions to the options of attention.
func (k *ggufKeys) rotated(o given, headDim int, base float64) given {
	dim := k.sizeOr("rope.dimension_count", 1, headDim)
	rotary := k.rotaryScaling(dim)
	if base = k.number("rope.freq_base", base); base != 10000 {
		rotary["rotary_base"] = base
	}
	return o.rotated(dim, rotary)
}

// rotaryScaling returns the options for scaling dim/2 frequencies. llama.cpp multiplies yarn's factor of cosines and
// sines by attn_factor.
func (k *ggufKeys) rotaryScaling(dim int) given {
	kind, by := "none", k.number("rope.scaling.factor", k.number("rope.scale_linear", 1))
	if by != 1 {
		kind = "linear" // unless the file specifies another kind
	}
	full, v := k.value("rope.scaling.type")
	if text, ok := v.(string); ok {
		kind = text
	}
	divided := k.has(ggufDivisors)
	switch {
	case divided && (kind == "none" || by == 1):
		return given{"rotary_scaling": "divided", "rotary_divisors": k.divisors(dim / 2)}
	case kind == "none", kind == "linear" && by == 1 && !divided:
		return given{}
	case kind == "linear" && !divided:
		return given{"rotary_scaling": kind, "rotary_factor": by}
	case kind == "yarn" && !divided:
		own := 0.1*math.Log(by) + 1
		o := given{"rotary_scaling": kind, "rotary_factor": by,
			"rotary_original": k.sizeOr("rope.scaling.original_context_length", 1, k.sizeOr("context_length", 1, 1)),
			"rotary_low":      k.number("rope.scaling.yarn_beta_slow", 1),
			"rotary_high":     k.number("rope.scaling.yarn_beta_fast", 32)}
		if factor := k.number("rope.scaling.attn_factor", 1); factor != 1 {
			o["rotary_magnitude"] = own * factor
		}
		return o
	}
	with := ""
	if divided {
		with = " together with " + ggufDivisors
	}
	k.failf(full, "found %.60q%s, want none, linear, yarn or none with %s", kind, with, ggufDivisors)
	return given{}
}

// divisors returns the n numbers of the tensor of divisors as text.
func (k *ggufKeys) divisors(n int) string {
	if shape := k.shape(ggufDivisors); len(shape) != 1 || shape[0] != n {
		k.errs = append(k.errs, fmt.Errorf("%s: found shape %v, want one number for each of %d frequencies",
			ggufDivisors, shape, n))
		return ""
	}
	values, err := k.vector(ggufDivisors)
	if err != nil {
		k.errs = append(k.errs, fmt.Errorf("%s: %w", ggufDivisors, err))
	}
	return divisorsText(values)
}

// divisorsText formats numbers as the option rotary_divisors.
func divisorsText(values []float32) string {
	var texts []string
	for _, v := range values {
		texts = append(texts, strconv.FormatFloat(float64(v), 'g', -1, 32))
	}
	return strings.Join(texts, ":")
}

// divided replaces the options of Llama 3's scaling by the divisors of the frequencies, as in GGUF files.
func (p part) divided() {
	r := engine.Rotary{Dim: p.size("rotary_emb_dim"), Base: p.number("rotary_base"), Scaling: engine.RotaryScaling{
		Kind: p.text("rotary_scaling"), Factor: p.number("rotary_factor"), Original: p.number("rotary_original"),
		Low: p.number("rotary_low"), High: p.number("rotary_high")}}
	p.options["rotary_scaling"], p.options["rotary_divisors"] = "divided", divisorsText(r.Divisors())
	for _, key := range []string{"rotary_factor", "rotary_original", "rotary_low", "rotary_high"} {
		delete(p.options, key)
	}
}

// rotaryValues adds the values of a linear or yarn scaling.
func (v *ggufValuesOf) rotaryValues(p part) {
	kind, by := p.text("rotary_scaling"), p.number("rotary_factor")
	if kind != "linear" && kind != "yarn" {
		return
	}
	v.add("rope.scaling.type", kind)
	v.number("rope.scaling.factor", by)
	if kind == "yarn" {
		v.size("rope.scaling.original_context_length", p.size("rotary_original"))
		v.number("rope.scaling.yarn_beta_slow", p.number("rotary_low"))
		v.number("rope.scaling.yarn_beta_fast", p.number("rotary_high"))
		v.scale("rope.scaling.attn_factor", p.number("rotary_magnitude")/yarnMagnitude(by, 1))
	}
}

// ggufDivisorsOf returns the divisors of the frequencies, nil if no layer has any.
func ggufDivisorsOf(layers []layerParts) (values []float32) {
	for _, l := range layers {
		for _, p := range l.mixers {
			if p.text("rotary_scaling") != "divided" {
				continue
			}
			all, _ := engine.ParseDivisors(p.text("rotary_divisors")) // the mixer has checked them
			for _, x := range all {
				values = append(values, float32(x))
			}
			return values // if other layers differ, reading the file back detects it
		}
	}
	return nil
}
