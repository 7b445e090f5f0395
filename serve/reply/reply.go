// Package reply generates replies for requests of any dialect: sampling options, jobs of prompts and replies, chats
// rendered by a model's template, function calls, required formats, and replies split into reasoning, text and calls.
package reply

import (
	"context"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Placed is a token with the position of its text in characters.
type Placed struct {
	host.Token
	At int
}

// Reply is the state of one reply.
type Reply struct {
	decoder *tokenizer.StreamDecoder
	at      int // characters of the tokens so far
	told    int // characters of the text so far
	pending []Placed
	Tokens  int // generated
}

// New returns a reply of a job. Its text starts at character at.
func New(of *Job, at int) *Reply {
	tok := of.Options.Decoder
	if tok == nil {
		tok = of.Model.Tokenizer
	}
	return &Reply{decoder: tokenizer.NewStreamDecoder(tok), at: at, told: at}
}

// Place returns a token with the position of its text.
func (r *Reply) Place(t host.Token) Placed {
	p := Placed{t, r.at}
	r.at += utf8.RuneCount(r.decoder.Write(t.ID))
	return p
}

// Take returns the tokens that it has not returned yet, omitting those of a stop string.
func (r *Reply) Take(p Piece) []Placed {
	r.Tokens += len(p.Tokens)
	r.told += utf8.RuneCountInString(p.Text)
	for _, t := range p.Tokens {
		r.pending = append(r.pending, r.Place(t))
	}
	n := len(r.pending)
	if p.End == "" || p.End == generate.EndStop {
		for n > 0 && r.pending[n-1].At >= r.told {
			n--
		}
	}
	out := r.pending[:n:n]
	r.pending = r.pending[n:]
	return out
}

// Finish returns OpenAI's reason for the end of a reply, or nil if the reply has not ended.
func Finish(end string) *string {
	reason := "stop"
	switch end {
	case "":
		return nil
	case generate.EndLength:
		reason = "length"
	}
	return &reason
}

// Service generates replies: it has the models, the admission of requests, and their limits.
type Service struct {
	Host   *host.Host
	Admit  *request.Admission
	Limits Limits

	Signer  *session.Signer // signs receipts
	Library Library         // texts that requests can mount
	Version string          // of the program
}

// ContextLength returns the length of a model to report to clients: at most the number of tokens of a prompt that the
// server accepts. most is the model's own limit, 0 if it has none. 0 is not reported, since clients take it for an
// unknown length and choose one of their own.
func (s *Service) ContextLength(most int) int {
	if most == 0 {
		return s.Limits.MaxPrompt
	}
	return min(most, s.Limits.MaxPrompt)
}

// Limits are the maxima of a request.
type Limits struct {
	MaxPrompt  int // ids of a prompt
	MaxPrompts int // prompts
	MaxTokens  int // ids of a reply
	MaxChoices int // n and best_of
}

// replying is a prepared request for replies.
type replying interface {
	// Respond runs the job and returns the response.
	Respond(c *request.Call) (any, error)
	// Send runs the job and sends each piece as it is generated.
	Send(ctx context.Context, to *request.Queue) error
}

// Reply admits a request and responds to it, at once or as a stream of events. An error in a stream is sent as the
// event that failed returns.
func (s *Service) Reply(c *request.Call, q replying, streams bool, failed func(*request.Error) []byte) error {
	if err := c.Enter(s.Admit); err != nil {
		return err
	}
	defer c.Leave(s.Admit)
	if streams {
		return c.Stream("text/event-stream", func(ctx context.Context, to *request.Queue) error {
			return q.Send(ctx, to)
		}, failed)
	}
	response, err := q.Respond(c)
	if err != nil {
		return err
	}
	return c.JSON(response)
}

// Usage counts the tokens of a request.
type Usage struct {
	Prompt     int          `json:"prompt_tokens"`
	Completion int          `json:"completion_tokens"`
	Total      int          `json:"total_tokens"`
	Details    UsageDetails `json:"prompt_tokens_details"`
}

type UsageDetails struct {
	Cached int `json:"cached_tokens"`
	Kept   int `json:"-"` // tokens of the prompts that are cached now
	// Miss is the reason why no more was cached, for a request with one prompt.
	Miss string `json:"cache_miss,omitempty"`
}

// log adds the usage to the request's log line.
func (u *Usage) log(c *request.Call) {
	c.Note("prompt_tokens", u.Prompt)
	c.Note("cached_tokens", u.Details.Cached)
	if u.Details.Miss != "" {
		c.Note("cache_miss", u.Details.Miss)
	}
	c.Note("completion_tokens", u.Completion)
}

// ReplyTokens returns the maximum length of a reply: that of the request, of the model, or the space after the prompt.
func (s *Service) ReplyTokens(m *host.Model, asked *int, own, prompt int) int {
	most := s.Limits.MaxTokens
	if own > 0 {
		most = min(most, own)
	}
	if length := m.Net.MaxLength(); length > 0 {
		most = max(1, min(most, length-prompt))
	}
	return request.Or(asked, most)
}
