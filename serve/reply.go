package serve

import (
	"context"
	"sync"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// placed is a token with the place where its text begins, in characters.
type placed struct {
	scored
	at int
}

// reply is what has been drawn of one reply.
type reply struct {
	decoder *tokenizer.StreamDecoder
	at      int // characters of the tokens so far
	told    int // characters of the text so far
	pending []placed
	tokens  int // that were drawn
}

// newReply returns a reply whose text begins at a place.
func newReply(m *Model, at int) *reply {
	return &reply{decoder: tokenizer.NewStreamDecoder(m.tok), at: at, told: at}
}

// place gives a token its place.
func (r *reply) place(t scored) placed {
	p := placed{t, r.at}
	r.at += utf8.RuneCount(r.decoder.Write(t.id))
	return p
}

// take returns the tokens of the text so far that it has not returned yet. Those of a stop string are left out.
func (r *reply) take(p piece) []placed {
	r.tokens += len(p.tokens)
	r.told += utf8.RuneCountInString(p.text)
	for _, t := range p.tokens {
		r.pending = append(r.pending, r.place(t))
	}
	n := len(r.pending)
	if p.end == "" || p.end == generate.EndStop {
		for n > 0 && r.pending[n-1].at >= r.told {
			n--
		}
	}
	out := r.pending[:n:n]
	r.pending = r.pending[n:]
	return out
}

// finish is OpenAI's reason why a reply has ended.
func finish(end string) *string {
	reason := "stop"
	switch end {
	case "":
		return nil
	case generate.EndLength:
		reason = "length"
	}
	return &reason
}

// service is what draws replies: models, the places of requests that run, and how much a request may ask for.
type service struct {
	host   *registry
	admit  *admission
	limits replyLimits
}

// replyLimits are the most that a request may ask for.
type replyLimits struct {
	MaxPrompt  int // ids of a prompt
	MaxPrompts int // prompts
	MaxTokens  int // ids of a reply
	MaxChoices int // n and best_of
}

// replying is a request for replies, prepared.
type replying interface {
	// answer does the work and returns all of it.
	answer(c *call) (any, error)
	// stream does the work and sends each piece as it comes.
	stream(ctx context.Context, c *call, to *queue) error
}

// reply lets a request in and answers it, whole or as a stream of events.
func (s *service) reply(c *call, q replying, streams bool) error {
	if err := c.enter(s.admit); err != nil {
		return err
	}
	defer s.admit.leave()
	if streams {
		return c.carry("text/event-stream", func(ctx context.Context, to *queue) error {
			return q.stream(ctx, c, to)
		}, sseFailed)
	}
	answer, err := q.answer(c)
	if err != nil {
		return err
	}
	return c.json(answer)
}

// usage is what a request took.
type usage struct {
	Prompt     int     `json:"prompt_tokens"`
	Completion int     `json:"completion_tokens"`
	Total      int     `json:"total_tokens"`
	Details    details `json:"prompt_tokens_details"`
}

type details struct {
	Cached int `json:"cached_tokens"`
	// Miss is why no more was, of a request of one prompt.
	Miss string `json:"cache_miss,omitempty"`
}

// meter counts what a work takes.
type meter struct {
	prompts int
	mu      sync.Mutex
	u       usage
}

func newMeter(w *work) *meter {
	m := &meter{prompts: len(w.prompts)}
	for _, ids := range w.prompts {
		m.u.Prompt += len(ids)
	}
	return m
}

// used is what has been taken so far.
func (m *meter) used() usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.u
	u.Total = u.Prompt + u.Completion
	return u
}

// logged notes what has been taken.
func (m *meter) logged(c *call) {
	u := m.used()
	c.note("prompt_tokens", u.Prompt)
	c.note("cached_tokens", u.Details.Cached)
	if u.Details.Miss != "" {
		c.note("cache_miss", u.Details.Miss)
	}
	c.note("completion_tokens", u.Completion)
}

// parts are the pieces of all replies of a work, counted, for one who takes them one at a time.
type parts struct {
	*meter
	onPrompt func(i int, ids []scored)
	onPiece  func(i, j int, p piece)
}

// prompt is called by the work.
func (p *parts) prompt(i int, ids []scored, found stored) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.u.Details.Cached += found.tokens
	if p.prompts == 1 {
		p.u.Details.Miss = found.miss
	}
	p.onPrompt(i, ids)
}

// piece is called by the work.
func (p *parts) piece(i, j int, part piece) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.u.Completion += len(part.tokens)
	p.onPiece(i, j, part)
}

// replyTokens is how long a reply to a prompt may become: as asked, or as the model says, or as long as there is room.
func (s *service) replyTokens(m *Model, asked *int, own, prompt int) int {
	most := s.limits.MaxTokens
	if own > 0 {
		most = min(most, own)
	}
	if length := m.net.MaxLength(); length > 0 {
		most = max(1, min(most, length-prompt))
	}
	return or(asked, most)
}
