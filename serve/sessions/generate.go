package sessions

import (
	"context"
	"net/http"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// appendRequest is the body of /v1/sessions/{id}/append.
type appendRequest struct {
	Text     *string         `json:"text"`
	Messages []reply.Message `json:"messages"`
	IDs      []int32         `json:"ids"`
}

// Append reads a text, messages or ids after the session's text.
func (s *Handler) Append(c *request.Call) error {
	var q appendRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	given := 0
	for _, there := range []bool{q.Text != nil, len(q.Messages) > 0, q.IDs != nil} {
		if there {
			given++
		}
	}
	if given != 1 {
		return request.Invalid("text", "found %d of text, messages and ids, want one", given)
	}
	return s.respondWith(c, func(ctx context.Context, h *inUse) (any, error) {
		ids, param, err := q.IDs, "ids", error(nil)
		switch {
		case q.Text != nil:
			param = "text"
			ids, err = h.encode(*q.Text)
		case q.IDs == nil:
			param = "messages"
			ids, err = h.encodeMessages(ctx, q.Messages)
		}
		if err != nil {
			return nil, err
		}
		if err := h.canGrow(param, ids, 0); err != nil {
			return nil, err
		}
		if err := h.change(func() error { return h.Append(ctx, ids) }); err != nil {
			return nil, err
		}
		c.Note("prompt_tokens", len(ids))
		return &h.record.Session, nil
	})
}

// encode returns the ids of a text to append. An empty session first gets the ids that start every text.
func (h *inUse) encode(text string) ([]int32, error) {
	if h.Position() == 0 {
		return h.model.Encode(request.Prompt{Text: text})
	}
	ids, err := h.model.Tokenizer.Encode(nil, []byte(text))
	if err != nil {
		return nil, request.Invalid("text", "%v", err)
	}
	return ids, nil
}

// canGrow returns an error unless ids and more further ids fit after the text.
func (h *inUse) canGrow(param string, ids []int32, more int) error {
	at, most := h.Position(), h.server.Limits.MaxPrompt
	if len(ids) == 0 && more == 0 {
		return request.Invalid(param, "found nothing, want at least one token")
	}
	if at+len(ids)+more > most {
		return request.Invalid(param, "found %d tokens behind %d, want at most %d in all, the limit of this server",
			len(ids)+more, at, most)
	}
	if length := h.model.Net.MaxLength(); length > 0 && at+len(ids)+more > length {
		e := request.Invalid(param, "found %d tokens behind %d, want at most %d in all, the length of the model",
			len(ids)+more, at, length)
		e.Code = "context_length_exceeded"
		return e
	}
	if len(ids) > 0 {
		if err := h.model.Check(param, ids, most, 0); err != nil {
			return err
		}
	}
	return h.server.roomForSession(h.place.owner, 0)
}

// sessionGenerate is the body of POST /v1/sessions/{id}/generate.
type sessionGenerate struct {
	reply.Sampling
	Logprobs bool `json:"logprobs"`
}

// GenerateForeign are the foreign fields of replies in a session.
var GenerateForeign = request.Foreign{Refused: []request.Refusal{
	{"n", "1", "/v1/sessions/{id}/fork"},
	{"mount", "", "state of POST /v1/sessions, with that of a text in GET /v1/library"},
	{"prompt", "", "/v1/sessions/{id}/append"},
	{"messages", "", "/v1/sessions/{id}/append"},
	{"response_format", `{"type":"text"}`, "/v1/completions or /v1/chat/completions"},
	{"guided_json", "", "/v1/completions or /v1/chat/completions"},
	{"guided_regex", "", "/v1/completions or /v1/chat/completions"},
	{"guided_choice", "", "/v1/completions or /v1/chat/completions"},
	{"guided_grammar", "", "/v1/completions or /v1/chat/completions"},
	{"grammar", "", "/v1/completions or /v1/chat/completions"},
	{"prompt_logprobs", "", "/v1/completions or /v1/chat/completions"},
	{"bad_words", "", "/v1/completions, or logit_bias with -100 for tokens"},
	{"allowed_token_ids", "", "/v1/completions"},
	{"skip_special_tokens", "false", "/v1/completions"},
	{"include_stop_str_in_output", "false", "/v1/completions"},
	{"dry_multiplier", "0", "/v1/completions, or frequency_penalty"},
	{"structured_outputs", "", "/v1/completions or /v1/chat/completions"},
	{"json_schema", "", "/v1/completions or /v1/chat/completions"},
	{"top_logprobs", "0", "logprobs"},
	{"max_completion_tokens", "", "max_tokens"},
	{"echo", "false", "text of GET /v1/sessions/{id}"},
	{"store", "true", "none: sessions are stored"},
	{"receipt", "false", "/v1/completions or /v1/chat/completions"},
}}.Plus(reply.SamplingForeign)

// Foreign returns the foreign fields of replies in a session.
func (*sessionGenerate) Foreign() request.Foreign { return GenerateForeign }

// Reply is a reply in a session, or a piece of one.
type Reply struct {
	Object   string    `json:"object"`
	Text     string    `json:"text"`
	IDs      []int32   `json:"ids"`
	Logprobs []float64 `json:"logprobs,omitempty"`
	Finish   *string   `json:"finish_reason,omitempty"`
	Session  *Session  `json:"session,omitempty"`
}

// Generate generates a reply after the session's text.
func (s *Handler) Generate(c *request.Call) error {
	var q sessionGenerate
	if err := c.Read(&q); err != nil {
		return err
	}
	if q.Stream {
		return c.Stream("text/event-stream", func(ctx context.Context, to *request.Queue) error {
			return q.stream(ctx, s, c, to)
		}, request.SSEFailed)
	}
	return s.respondWith(c, func(ctx context.Context, h *inUse) (any, error) {
		o, err := q.options(s, h)
		if err != nil {
			return nil, err
		}
		all := Reply{IDs: []int32{}}
		last, err := h.reply(ctx, o, q.Logprobs, func(p Reply) {
			all.Text, all.IDs = all.Text+p.Text, append(all.IDs, p.IDs...)
			all.Logprobs = append(all.Logprobs, p.Logprobs...)
		})
		last.Text, last.IDs, last.Logprobs = all.Text, all.IDs, all.Logprobs
		return last, err
	})
}

// stream generates a reply and sends each piece as it is generated. It unlocks the session at the end of the reply,
// even if the client is still receiving it.
func (q *sessionGenerate) stream(ctx context.Context, s *Handler, c *request.Call, to *request.Queue) error {
	var last Reply
	err := s.withSession(c, func(_ context.Context, h *inUse) error {
		o, err := q.options(s, h)
		if err != nil {
			return err
		}
		last, err = h.reply(ctx, o, q.Logprobs, func(p Reply) { to.Add(request.SSE(p)) })
		return err
	})
	if err == nil {
		to.Add(request.SSE(last), request.SSEDone)
	}
	return err
}

// options returns the options of a reply in a session.
func (q *sessionGenerate) options(s *Handler, h *inUse) (generate.Options, error) {
	o, err := q.Replies(&s.Service, h.model, h.model.Defaults(reply.CompletionTokens))
	if err != nil {
		return o, err
	}
	o.MaxTokens = request.Or(q.MaxTokens, reply.CompletionTokens)
	if n := o.MaxTokens; n < 1 || n > s.Limits.MaxTokens {
		return o, request.Invalid("max_tokens", "found %d, want an integer from 1 to %d", n, s.Limits.MaxTokens)
	}
	if h.Position() == 0 {
		return o, &request.Error{
			Status: http.StatusBadRequest, Code: "empty_session",
			Message: "the session has no text yet, want one to go on after: append it",
		}
	}
	return o, h.canGrow("max_tokens", nil, o.MaxTokens)
}

// reply generates a reply, passes each piece on, stores the session, and returns the last piece.
func (h *inUse) reply(ctx context.Context, o generate.Options, logprobs bool, each func(Reply)) (Reply,
	error) {
	last, drawn := Reply{Object: "session.reply", IDs: []int32{}}, 0
	err := h.change(func() error {
		// A session whose reading was stopped has no logits. Compute them first.
		if _, err := h.Rewind(ctx, h.Position()); err != nil {
			return err
		}
		for p, err := range h.Generate(ctx, o) {
			if err != nil {
				return err
			}
			drawn += len(p.IDs)
			each(h.piece(p, logprobs))
			if p.End != "" {
				last.Finish = reply.Finish(p.End)
			}
		}
		return nil
	})
	h.Note("completion_tokens", drawn)
	last.Session = &h.record.Session
	return last, err
}

// piece returns a piece of a reply for a client.
func (h *inUse) piece(p generate.Piece, logprobs bool) Reply {
	out := Reply{Object: "session.piece", Text: string(p.Text), IDs: append([]int32{}, p.IDs...)}
	if logprobs {
		all := h.LogProbs()
		for _, x := range all[len(all)-len(p.IDs):] {
			out.Logprobs = append(out.Logprobs, host.JSONLogProb(float64(x)))
		}
	}
	return out
}

// ending is a scored ending.
type ending struct {
	IDs      []int32   `json:"ids"`
	Logprobs []float64 `json:"logprobs"`
	Sum      float64   `json:"sum"`
}

// scoreRequest is the body of /v1/sessions/{id}/score.
type scoreRequest struct {
	Endings request.Prompts `json:"endings"`
}

// Score responds with the log-probabilities of endings after the session's text. The session does not change.
func (s *Handler) Score(c *request.Call) error {
	var q scoreRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if n := len(q.Endings); n == 0 || n > s.Limits.MaxPrompts {
		return request.Invalid("endings", "found %d, want 1 to %d", n, s.Limits.MaxPrompts)
	}
	return s.respondWith(c, func(ctx context.Context, h *inUse) (any, error) {
		response := struct {
			Object string   `json:"object"`
			Data   []ending `json:"data"`
		}{Object: "list"}
		if h.Position() == 0 {
			return nil, request.Invalid("endings", "found a session without a text, want one to score after: append it")
		}
		var all [][]int32
		for _, e := range q.Endings {
			ids := e.IDs
			if ids == nil {
				var err error
				if ids, err = h.model.Tokenizer.Encode(nil, []byte(e.Text)); err != nil {
					return nil, request.Invalid("endings", "%v", err)
				}
			}
			if err := h.canGrow("endings", ids, 0); err != nil {
				return nil, err
			}
			all = append(all, ids)
		}
		scores, err := h.score(ctx, all)
		if err != nil {
			return nil, err
		}
		for i, of := range scores {
			one := ending{IDs: all[i], Logprobs: []float64{}}
			sum := 0.0
			for _, x := range of {
				one.Logprobs = append(one.Logprobs, host.JSONLogProb(float64(x)))
				sum += float64(x)
			}
			one.Sum = host.JSONLogProb(sum)
			response.Data = append(response.Data, one)
		}
		return response, nil
	})
}

// score scores endings. If the reading of the session was stopped, it first computes the logits.
func (h *inUse) score(ctx context.Context, endings [][]int32) ([][]float32, error) {
	if _, err := h.Rewind(ctx, h.Position()); err != nil {
		return nil, err
	}
	return h.Score(ctx, endings...)
}
