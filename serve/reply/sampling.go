package reply

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Sampling has the fields of completions and chats that configure replies: OpenAI's and some extensions.
type Sampling struct {
	Model            string             `json:"model"`
	Temperature      *float64           `json:"temperature"`
	TopP             *float64           `json:"top_p"`
	N                *int               `json:"n"`
	Stop             request.Strings    `json:"stop"`
	Seed             *int64             `json:"seed"`
	LogitBias        map[string]float64 `json:"logit_bias"`
	FrequencyPenalty *float64           `json:"frequency_penalty"`
	PresencePenalty  *float64           `json:"presence_penalty"`
	MaxTokens        *int               `json:"max_tokens"`
	Stream           bool               `json:"stream"`
	StreamOptions    streamOptions      `json:"stream_options"`

	TopK              *int        `json:"top_k"`
	MinP              *float64    `json:"min_p"`
	RepetitionPenalty *float64    `json:"repetition_penalty"`
	IgnoreEOS         bool        `json:"ignore_eos"`
	MinTokens         int         `json:"min_tokens"`
	StopIDs           []int32     `json:"stop_token_ids"`
	Receipt           ReceiptKind `json:"receipt"`
	wording
	request.Salted
	request.Ranked
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// CompletionTokens is OpenAI's default of max_tokens.
const CompletionTokens = 16

// MaxTop is the maximum number of alternatives for a token.
const MaxTop = 20

// maxStops is the maximum number of stop strings, maxStop the maximum length of each.
const (
	maxStops = 64
	maxStop  = 1024
)

// Replies returns the options of the replies, given the defaults. MaxTokens is the request's own, if it has one.
func (q *Sampling) Replies(s *Service, m *host.Model, o generate.Options) (generate.Options, error) {
	o.Temperature, o.TopP = request.Or(q.Temperature, o.Temperature), request.Or(q.TopP, o.TopP)
	o.TopK, o.MinP = request.Or(q.TopK, o.TopK), request.Or(q.MinP, o.MinP)
	o.RepetitionPenalty = request.Or(q.RepetitionPenalty, o.RepetitionPenalty)
	o.FrequencyPenalty, o.PresencePenalty = request.Or(q.FrequencyPenalty, 0), request.Or(q.PresencePenalty, 0)
	o.Seed = rand.Uint64()
	if q.Seed != nil {
		o.Seed = uint64(*q.Seed)
	}
	if o.IgnoreEnd = q.IgnoreEOS; o.IgnoreEnd {
		o.Stop = nil // the defaults are the model's own ends
	}
	o.Stop = slices.Concat([]string(q.Stop), o.Stop)
	o.MinTokens, o.StopIDs = q.MinTokens, q.StopIDs
	var c request.Checks
	c.That(o.Temperature >= 0, "temperature", "found %v, want a number from 0 up", o.Temperature)
	c.That(o.TopP >= 0 && o.TopP <= 1, "top_p", "found %v, want a number from 0 to 1", o.TopP)
	c.That(o.TopK >= -1, "top_k", "found %d, want an integer from 0 up", o.TopK)
	c.That(o.MinP >= 0 && o.MinP <= 1, "min_p", "found %v, want a number from 0 to 1", o.MinP)
	c.That(o.RepetitionPenalty >= 0 && o.RepetitionPenalty <= math.MaxFloat32, "repetition_penalty",
		"found %v, want a number from 0 up", o.RepetitionPenalty)
	c.That(math.Abs(o.FrequencyPenalty) <= 2, "frequency_penalty", "found %v, want a number from -2 to 2",
		o.FrequencyPenalty)
	c.That(math.Abs(o.PresencePenalty) <= 2, "presence_penalty", "found %v, want a number from -2 to 2",
		o.PresencePenalty)
	c.Range(request.Or(q.N, 1), 1, s.Limits.MaxChoices, "n")
	c.That(len(q.Stop) <= maxStops, "stop", "found %d strings, want at most %d", len(q.Stop), maxStops)
	for _, stop := range q.Stop {
		c.That(stop != "" && len(stop) <= maxStop, "stop", "found a string of %d bytes, want 1 to %d",
			len(stop), maxStop)
	}
	most := request.Or(q.MaxTokens, s.Limits.MaxTokens)
	c.That(o.MinTokens >= 0 && o.MinTokens <= most, "min_tokens", "found %d, want an integer from 0 to %d, the most "+
		"tokens of the reply", o.MinTokens, most)
	c.That(len(q.StopIDs) <= maxStops, "stop_token_ids", "found %d ids, want at most %d", len(q.StopIDs), maxStops)
	for _, id := range q.StopIDs {
		c.Range(int(id), 0, m.Net.Config.VocabSize-1, "stop_token_ids")
	}
	o.TopK = max(0, o.TopK) // -1 means all, as in other servers
	bias, err := q.bias(m.Net.Config.VocabSize)
	if c.Err == nil {
		c.Err = err
	}
	o.LogitBias = bias
	if c.Err == nil {
		c.Err = q.wording.apply(m, q.RepetitionPenalty, &o)
	}
	return o, c.Err
}

// bias parses logit_bias: ids as strings, and the values added to their logits. As in OpenAI's API, -100 in effect
// excludes a token and 100 selects it, since logits differ by less.
func (q *Sampling) bias(vocab int) (map[int32]float32, error) {
	const most = 100
	var c request.Checks
	out := make(map[int32]float32, len(q.LogitBias))
	for key, x := range q.LogitBias {
		id, err := strconv.ParseInt(key, 10, 32)
		c.That(err == nil && id >= 0 && int(id) < vocab, "logit_bias",
			"found the key %.40q, want token ids from 0 to %d", key, vocab-1)
		c.That(math.Abs(x) <= most, "logit_bias", "found %v, want numbers from -%d to %d", x, most, most)
		out[int32(id)] = float32(x)
	}
	return out, c.Err
}
