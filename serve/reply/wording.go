package reply

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// wording has the fields of vLLM and llama.cpp that exclude tokens or make repetition less likely.
type wording struct {
	BadWords    []string `json:"bad_words"`
	AllowedIDs  []int32  `json:"allowed_token_ids"`
	IncludeStop bool     `json:"include_stop_str_in_output"`
	SkipSpecial bool     `json:"skip_special_tokens"`

	RepeatPenalty *float64 `json:"repeat_penalty"` // repetition_penalty, as llama.cpp calls it
	RepeatLast    *int     `json:"repeat_last_n"`

	DRYMultiplier float64   `json:"dry_multiplier"`
	DRYBase       *float64  `json:"dry_base"`
	DRYAllowed    *int      `json:"dry_allowed_length"`
	DRYLast       *int      `json:"dry_penalty_last_n"`
	DRYBreakers   *[]string `json:"dry_sequence_breakers"`
}

// apply sets the options of the fields, and checks them.
func (q *wording) apply(m *host.Model, repetition *float64, o *generate.Options) error {
	var c request.Checks
	c.That(q.RepeatPenalty == nil || repetition == nil, "repeat_penalty", "found it beside repetition_penalty, want "+
		"one of the two")
	if q.RepeatPenalty != nil {
		const window = 64 // llama.cpp's
		o.RepetitionPenalty, o.RepetitionWindow = *q.RepeatPenalty, window
	}
	if last := request.Or(q.RepeatLast, -1); q.RepeatLast != nil {
		c.That(last >= -1, "repeat_last_n", "found %d, want an integer from -1, for all tokens, up", last)
		if o.RepetitionWindow = max(0, last); last == 0 {
			o.RepetitionPenalty = 1
		}
	}
	c.That(o.RepetitionPenalty >= 0 && o.RepetitionPenalty <= math.MaxFloat32, "repeat_penalty",
		"found %v, want a number from 0 up", o.RepetitionPenalty)
	q.dry(&c, o)
	if o.IncludeStop = q.IncludeStop; q.SkipSpecial {
		o.Decoder = tokenizer.WithoutSpecial(m.Tokenizer, markers()...) // calls and thoughts are found by their marks
	}
	for _, id := range q.AllowedIDs {
		c.Range(int(id), 0, m.Net.Config.VocabSize-1, "allowed_token_ids")
	}
	if len(q.AllowedIDs) > 0 {
		o.AllowedIDs = slices.Compact(slices.Sorted(slices.Values(q.AllowedIDs)))
	}
	if c.Err == nil && len(q.BadWords) > 0 {
		var err error
		if o.BadWords, err = constrain.NewWords(m.Vocabulary(markers()), q.BadWords); err != nil {
			return request.Invalid("bad_words", "%v", err)
		}
	}
	return c.Err
}

// dry sets the penalty on sequences that repeat themselves.
func (q *wording) dry(c *request.Checks, o *generate.Options) {
	d, last := &o.DRY, request.Or(q.DRYLast, -1)
	d.SetDefaults()
	d.Multiplier, d.Base = q.DRYMultiplier, request.Or(q.DRYBase, d.Base)
	d.AllowedLength = request.Or(q.DRYAllowed, d.AllowedLength)
	d.Last, d.Breakers = max(0, last), request.Or(q.DRYBreakers, d.Breakers)
	const most = math.MaxFloat32
	c.That(d.Multiplier >= 0 && d.Multiplier <= most, "dry_multiplier", "found %v, want a number from 0 to %v",
		d.Multiplier, float32(most))
	c.That(d.Base >= 1 && d.Base <= most, "dry_base", "found %v, want a number from 1 to %v", d.Base, float32(most))
	c.That(d.AllowedLength >= 0, "dry_allowed_length", "found %d, want an integer from 0 up", d.AllowedLength)
	c.That(last >= -1, "dry_penalty_last_n", "found %d, want an integer from -1, for all tokens, up", last)
	c.That(len(d.Breakers) <= maxStops, "dry_sequence_breakers", "found %d texts, want at most %d", len(d.Breakers),
		maxStops)
	for _, b := range d.Breakers {
		c.That(b != "" && len(b) <= maxStop, "dry_sequence_breakers", "found a text of %d bytes, want 1 to %d", len(b),
			maxStop)
	}
	if last == 0 {
		d.Multiplier = 0
	}
}
