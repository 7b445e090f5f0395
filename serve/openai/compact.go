package openai

import (
	"net/http"
	"slices"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// countRequest is the body of /v1/responses/input_tokens.
type countRequest struct {
	Model string `json:"model"`
	responsePrompt
}

// InputTokens responds to /v1/responses/input_tokens with the number of tokens of a response's prompt.
func (s *Responses) InputTokens(c *request.Call) error {
	var body countRequest
	if err := c.Read(&body); err != nil {
		return err
	}
	q := &responding{server: s, counts: true}
	q.Model, q.responsePrompt = body.Model, body.responsePrompt
	if err := s.prepareResponse(q, c); err != nil {
		return err
	}
	return c.JSON(inputTokens{"response.input_tokens", len(q.job.Prompts[0])})
}

type inputTokens struct {
	Object string `json:"object"`
	Count  int    `json:"input_tokens"`
}

// compactRequest is the body of /v1/responses/compact.
type compactRequest struct {
	Model string `json:"model"`
	responsePast
}

// compaction is OpenAI's object of a compacted conversation.
type compaction struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"`
	Created int64          `json:"created_at"`
	Output  []responseItem `json:"output"`
	Usage   responseUsage  `json:"usage"`
}

// Compact responds to /v1/responses/compact with an item that stands for a conversation. The server stores the whole
// conversation as a response without a reply, and the item has the id of that response. Nothing is summarized: a
// model's state does not grow with the text, and the text is not read again.
func (s *Responses) Compact(c *request.Call) error {
	var body compactRequest
	if err := c.Read(&body); err != nil {
		return err
	}
	q := &responding{server: s, counts: true}
	q.Model, q.responsePast = body.Model, body.responsePast
	if err := s.prepareResponse(q, c); err != nil {
		return err
	}
	a, r, n := &q.object, &q.record, len(q.job.Prompts[0])
	for _, m := range r.Messages {
		if m.Role() == host.UserRole {
			item := a.newItem(itemMessage)
			item.Role, item.Content = host.UserRole, []responsePart{{Type: partInput, Text: m.Content()}}
			item.Status = ResponseCompleted
			a.Output = append(a.Output, item)
		}
	}
	item := a.newItem(itemCompaction)
	item.Status, item.Encrypted = ResponseCompleted, a.ID
	a.Output, a.Status = append(a.Output, item), ResponseCompleted
	a.finish(reply.Usage{Prompt: n, Total: n}, 0)
	r.Response = *a
	if err := s.put(c.Owner(), a.ID, r); err != nil {
		return err
	}
	return c.JSON(compaction{a.ID, "response.compaction", a.Created, a.Output, *a.Usage})
}

// expand adds the messages that a compaction stands for. They include all user messages before it.
func (q *drafts) expand(from *references, at int, id string) error {
	if from.expanded {
		return request.Invalid(from.param, "%d: found a second compaction, want one: it has all before it", at)
	}
	from.expanded = true
	r, err := from.response(from.c, id)
	if err != nil {
		if e := request.ErrorOf(err); e.Status == http.StatusNotFound {
			err = request.Invalid(from.param, "%d: encrypted_content: %s", at, e.Message)
		}
		return err
	}
	var all drafts
	for _, m := range r.Messages {
		d := draft{Draft: reply.DraftOf(m)}
		d.thoughts = []string{d.Reasoning}
		all = append(all, d)
	}
	*q = slices.DeleteFunc(*q, func(d draft) bool {
		return d.Role == host.UserRole && slices.ContainsFunc(all, func(other draft) bool {
			return other.Role == host.UserRole && other.Content == d.Content
		})
	})
	*q = append(*q, all...)
	return nil
}
