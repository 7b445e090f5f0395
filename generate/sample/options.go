// Package sample chooses the next token from a model's logits, and finds stop strings in the generated text.
//
// The steps from the logits to the token are, in this order (a step whose option is zero is skipped at no cost):
//
//  1. logit bias: a number is added to the logits of given tokens.
//  2. frequency and presence penalty, as in OpenAI's interface: for every token that was drawn before, the frequency
//     penalty is subtracted from its logit once for each time it was drawn, and the presence penalty once.
//  3. repetition penalty: the logit of every token in the window is divided by the penalty if positive, multiplied by
//     it otherwise. CTRL, arXiv:1909.05858, §4.1, divides always, which would favor negative logits.
//  4. DRY: the logit of a token that would continue a repetition is lowered (see DRY).
//  5. temperature: logits are divided by it; 0 takes the token with the largest logit.
//  6. top-k: only the k largest logits remain. Fan et al., arXiv:1805.04833, §5.4.
//  7. softmax over the remaining tokens.
//  8. top-p (nucleus): the smallest set of most probable tokens whose total probability reaches p remains, including
//     the token that crosses p. Holtzman et al., arXiv:1904.09751, §3.1.
//  9. min-p: only tokens at least min_p times as probable as the most probable one remain. arXiv:2407.01082, §3.
//
// 10. one of the remaining tokens is drawn with probability proportional to its own.
//
// Among equal logits, the token with the lower number counts as the larger. The same options, logits and random state
// give the same token on every machine whose exp is the same.
package sample

import (
	"fmt"
	"math"
	"strings"
)

// Options determine how a token is chosen. The zero value is greedy: always the token with the largest logit.
type Options struct {
	Temperature float64 `json:"temperature" help:"0 is greedy, 1 follows the model, more is more varied" min:"0"`
	TopK        int     `json:"top_k" help:"choose among the k most probable tokens; 0 for all" min:"0"`
	TopP        float64 `json:"top_p" help:"draw from the likeliest tokens with this sum; 0, 1: all" min:"0" max:"1"`
	MinP        float64 `json:"min_p" help:"drop tokens below this fraction of the likeliest; 0: none" min:"0" max:"1"`

	RepetitionPenalty float64 `json:"repetition_penalty" help:"above 1 repeats less, below 1 more; 0 or 1: off" min:"0"`
	RepetitionWindow  int     `json:"repetition_window" help:"last tokens that count as repeated; 0: all" min:"0"`

	FrequencyPenalty float64 `json:"frequency_penalty" help:"lowers a token by this for each time it was drawn; 0: off"`
	PresencePenalty  float64 `json:"presence_penalty" help:"lowers a token that was drawn by this, once; 0: off"`

	Seed uint64 `json:"seed" help:"of the random numbers"`

	// LogitBias is added to the logits of tokens, before anything else. It must not change while it is used.
	LogitBias map[int32]float32 `json:"-"`

	DRY DRY `json:"-"`
}

// Validate returns one error that names every option out of range, or nil if there is none.
func (o Options) Validate() error {
	var problems []string
	check := func(ok bool, name string, found any, want string) {
		if !ok {
			problems = append(problems, fmt.Sprintf("%s: found %v, want %s", name, found, want))
		}
	}
	// All comparisons with NaN are false, so NaN fails each check.
	check(o.Temperature >= 0 && o.Temperature <= math.MaxFloat64, "temperature", o.Temperature, "a number from 0 up")
	check(o.TopK >= 0, "top_k", o.TopK, "an integer from 0 up")
	check(o.TopP >= 0 && o.TopP <= 1, "top_p", o.TopP, "a number from 0 to 1")
	check(o.MinP >= 0 && o.MinP <= 1, "min_p", o.MinP, "a number from 0 to 1")
	check(o.RepetitionPenalty >= 0 && o.RepetitionPenalty <= math.MaxFloat32, "repetition_penalty", o.RepetitionPenalty,
		"a number from 0 up")
	check(o.RepetitionWindow >= 0, "repetition_window", o.RepetitionWindow, "an integer from 0 up")
	finite := func(x float64) bool { return x >= -math.MaxFloat32 && x <= math.MaxFloat32 }
	check(finite(o.FrequencyPenalty), "frequency_penalty", o.FrequencyPenalty, "a number")
	check(finite(o.PresencePenalty), "presence_penalty", o.PresencePenalty, "a number")
	for id, bias := range o.LogitBias {
		if id < 0 || !finite(float64(bias)) {
			check(false, "logit_bias", "another", "tokens with finite numbers")
			break
		}
	}
	if d := o.DRY; d.Multiplier != 0 {
		check(d.Multiplier > 0 && finite(d.Multiplier), "dry_multiplier", d.Multiplier, "a number from 0 up")
		check(d.Base >= 1 && finite(d.Base), "dry_base", d.Base, "a number from 1 up")
		check(d.AllowedLength >= 0, "dry_allowed_length", d.AllowedLength, "an integer from 0 up")
		check(d.Last >= 0, "dry_penalty_last_n", d.Last, "an integer from 0 up")
	}
	if problems == nil {
		return nil
	}
	return fmt.Errorf("sampling options: %s", strings.Join(problems, "; "))
}
