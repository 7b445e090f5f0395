package release

import (
	"cmp"
	"math"
)

// hfRotary holds the fields of rotary positions in both dialects. transformers 5 has them in one struct.
type hfRotary struct {
	Theta      *float64 `json:"rope_theta"`
	Part       *float64 `json:"partial_rotary_factor"`
	Scaling    *hfRoPE  `json:"rope_scaling"`
	Parameters *hfRoPE  `json:"rope_parameters"`
}

// hfRoPE holds the fields of rope_parameters or, in the older dialect, of rope_scaling.
type hfRoPE struct {
	Type     string   `json:"rope_type"`
	OldType  string   `json:"type"`
	Theta    *float64 `json:"rope_theta"`
	Part     *float64 `json:"partial_rotary_factor"`
	Factor   *float64 `json:"factor"`
	Original *float64 `json:"original_max_position_embeddings"`

	Low  *float64 `json:"low_freq_factor"` // llama3
	High *float64 `json:"high_freq_factor"`

	Slow      *float64 `json:"beta_slow"` // yarn
	Fast      *float64 `json:"beta_fast"`
	Attention *float64 `json:"attention_factor"`
	Scale     *float64 `json:"mscale"`
	ScaleAll  *float64 `json:"mscale_all_dim"`
	Truncate  *bool    `json:"truncate"`
}

// rotary returns the options of the frequencies of rotary positions: their base and their scaling.
func (c *hfCommon) rotary(otherwise float64) given {
	o, p := given{}, c.Parameters
	if p != nil {
		set(&otherwise, p.Theta)
		o = c.scaled("rope_parameters.", p)
	} else if c.Scaling != nil {
		o = c.scaled("rope_scaling.", c.Scaling)
	}
	set(&otherwise, c.Theta)
	if !(otherwise > 0) {
		c.failf("rope_theta: found %g, want more than 0", otherwise)
	}
	if otherwise != 10000 {
		o["rotary_base"] = otherwise
	}
	return o
}

// plainRotary is like rotary, for a family that does not support scaling.
func (c *hfCommon) plainRotary(otherwise float64) given {
	o := c.rotary(otherwise)
	if kind, ok := o["rotary_scaling"]; ok {
		c.failf("rope_scaling, rope_parameters: found the type %q, want default: no scaling", kind)
	}
	return o
}

// dim returns the number of components of a head that are rotated.
func (c *hfCommon) dim(headDim int, part float64) int {
	if p := c.Parameters; p != nil {
		set(&part, p.Part)
	}
	set(&part, c.Part)
	n := int(part * float64(headDim))
	if !(part >= 0 && part <= 1) || n%2 != 0 {
		c.failf("partial_rotary_factor: found %g, want an even part of the %d components of a head", part, headDim)
	}
	return n
}

// scaled returns the options of a scaling as in the transformers library's modeling_rope_utils.py. If the dialects
// differ, it follows transformers 5: yarn uses factor, and the ratio of the two numbers of positions only if there is
// no factor. prefix is the prefix of the fields' names.
func (c *hfCommon) scaled(prefix string, p *hfRoPE) given {
	kind := cmp.Or(p.Type, p.OldType, "default")
	number := func(field string, x *float64, otherwise float64) float64 {
		set(&otherwise, x)
		if !(otherwise > 0) || math.IsInf(otherwise, 0) {
			c.failf("%s%s: found %g, want a number above 0", prefix, field, otherwise)
		}
		return otherwise
	}
	original := func(otherwise int) int {
		x := number("original_max_position_embeddings", p.Original, float64(otherwise))
		if x != math.Trunc(x) || x > maxGGUFSize {
			c.failf("%soriginal_max_position_embeddings: found %g, want a whole number up to %d", prefix, x,
				maxGGUFSize)
			return 1
		}
		return int(x)
	}
	switch kind {
	case "default":
		return given{}
	case "linear":
		return given{"rotary_scaling": kind, "rotary_factor": number("factor", p.Factor, 0)}
	case "llama3":
		return given{"rotary_scaling": kind, "rotary_factor": number("factor", p.Factor, 0),
			"rotary_original": original(0), "rotary_low": number("low_freq_factor", p.Low, 0),
			"rotary_high": number("high_freq_factor", p.High, 0)}
	case "yarn":
	default:
		c.failf("%srope_type: found %q, want default, linear, llama3 or yarn", prefix, kind)
		return given{}
	}
	before := original(c.Positions)
	ratio := 0.0
	if p.Original != nil {
		ratio = float64(c.Positions) / float64(before)
	}
	by := number("factor", p.Factor, ratio)
	o := given{"rotary_scaling": kind, "rotary_factor": by, "rotary_original": before,
		"rotary_low": number("beta_slow", notZero(p.Slow), 1), "rotary_high": number("beta_fast", notZero(p.Fast), 32)}
	switch {
	case p.Attention != nil:
		o["rotary_magnitude"] = number("attention_factor", p.Attention, 1)
	case notZero(p.Scale) != nil && notZero(p.ScaleAll) != nil:
		o["rotary_magnitude"] = yarnMagnitude(by, *p.Scale) / yarnMagnitude(by, *p.ScaleAll)
	}
	if p.Truncate != nil {
		o["rotary_exact"] = !*p.Truncate
	}
	return o
}

// notZero returns x, or nil if *x is 0. The library also treats 0 as unset.
func notZero(x *float64) *float64 {
	if x != nil && *x == 0 {
		return nil
	}
	return x
}

// yarnMagnitude returns YaRN's factor of cosines and sines (arXiv:2309.00071, §3.4), with DeepSeek's multiplier.
func yarnMagnitude(factor, scale float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*scale*math.Log(factor) + 1
}

// rotated returns o with rotary positions for dim components of a head.
func (o given) rotated(dim int, rotary given) given {
	if dim == 0 {
		return o
	}
	return o.with(given{"rotary_emb_dim": dim}).with(rotary)
}
