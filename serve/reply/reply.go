// Package reply draws replies with a model, whatever the language of the request: sampling options, jobs of prompts and
// replies, chats as the template of a model writes them, calls of functions and formats that a reply must have, and
// replies taken apart into thoughts, text and calls.
package reply

import (
	"context"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Placed is a token with the place where its text begins, in characters.
type Placed struct {
	host.Token
	At int
}

// Reply is what has been drawn of one reply.
type Reply struct {
	decoder *tokenizer.StreamDecoder
	at      int // characters of the tokens so far
	told    int // characters of the text so far
	pending []Placed
	Tokens  int // that were drawn
}

// New returns a reply whose text begins at a place.
func New(m *host.Model, at int) *Reply {
	return &Reply{decoder: tokenizer.NewStreamDecoder(m.Tokenizer), at: at, told: at}
}

// Place gives a token its place.
func (r *Reply) Place(t host.Token) Placed {
	p := Placed{t, r.at}
	r.at += utf8.RuneCount(r.decoder.Write(t.ID))
	return p
}

// Take returns the tokens of the text so far that it has not returned yet. Those of a stop string are left out.
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

// Finish is OpenAI's reason why a reply has ended.
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

// Service is what draws replies: models, the places of requests that run, and how much a request may ask for.
type Service struct {
	Host   *host.Host
	Admit  *request.Admission
	Limits Limits
}

// Limits are the most that a request may ask for.
type Limits struct {
	MaxPrompt  int // ids of a prompt
	MaxPrompts int // prompts
	MaxTokens  int // ids of a reply
	MaxChoices int // n and best_of
}

// replying is a request for replies, prepared.
type replying interface {
	// Answer does the work and returns all of it.
	Answer(c *request.Call) (any, error)
	// Send does the work and sends each piece as it comes.
	Send(ctx context.Context, to *request.Queue) error
}

// Reply lets a request in and answers it, whole or as a stream of events.
func (s *Service) Reply(c *request.Call, q replying, streams bool) error {
	if err := c.Enter(s.Admit); err != nil {
		return err
	}
	defer s.Admit.Leave()
	if streams {
		return c.Stream("text/event-stream", func(ctx context.Context, to *request.Queue) error {
			return q.Send(ctx, to)
		}, request.SSEFailed)
	}
	answer, err := q.Answer(c)
	if err != nil {
		return err
	}
	return c.JSON(answer)
}

// Usage is what a request took.
type Usage struct {
	Prompt     int          `json:"prompt_tokens"`
	Completion int          `json:"completion_tokens"`
	Total      int          `json:"total_tokens"`
	Details    UsageDetails `json:"prompt_tokens_details"`
}

type UsageDetails struct {
	Cached int `json:"cached_tokens"`
	// Miss is why no more was, of a request of one prompt.
	Miss string `json:"cache_miss,omitempty"`
}

// log notes what was used.
func (u *Usage) log(c *request.Call) {
	c.Note("prompt_tokens", u.Prompt)
	c.Note("cached_tokens", u.Details.Cached)
	if u.Details.Miss != "" {
		c.Note("cache_miss", u.Details.Miss)
	}
	c.Note("completion_tokens", u.Completion)
}

// ReplyTokens is how long a reply to a prompt may become: as asked, or as the model says, or as long as there is room.
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
