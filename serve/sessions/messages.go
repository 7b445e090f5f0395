package sessions

import (
	"context"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// encodeMessages returns the ids of messages after the session's text, including what the template inserts between them
// and the start of the next reply. It returns an error if the text is not a chat, or if the template does not simply
// append messages.
func (h *inUse) encodeMessages(ctx context.Context, messages []reply.Message) ([]int32, error) {
	const param = "messages"
	if h.Position() == 0 {
		return reply.EncodeChat(ctx, h.model, param, messages, "")
	}
	if role := messages[0].Role(); role == host.AssistantRole {
		return nil,
			request.Invalid(param, "found a first message of the role %s, want another: the session ends by such a one",
				role)
	}
	one, other := reply.NewMessage(host.UserRole, "a"), reply.NewMessage(host.UserRole, "t")
	before, err := reply.ChatText(ctx, h.model, param, []reply.Message{one})
	if err != nil {
		return nil, err
	}
	beside, err := reply.ChatText(ctx, h.model, param, []reply.Message{other})
	if err != nil {
		return nil, err
	}
	// The common end of two chats with one message each is the start of every reply.
	begins := commonEnd(before, beside)
	text := string(h.Text())
	if at := strings.LastIndex(text, begins); begins == "" || at < 0 || at+len(begins) == len(text) {
		return nil,
			request.Invalid(param, "found a session whose text does not end by a reply behind %.60q, want one, as the "+
				"chat template of %s has it: append text", begins, h.model.Name)
	}
	const said = "reply"
	all, err := reply.ChatText(ctx, h.model, param,
		append([]reply.Message{one, reply.NewMessage(host.AssistantRole, said)}, messages...))
	if err != nil {
		return nil, err
	}
	more, ok := strings.CutPrefix(all, before+said)
	if !ok || more == "" {
		return nil,
			request.Invalid(param,
				"found messages before which the chat template of %s changes the text that is read, "+
					"want a template that goes on behind it: append text", h.model.Name)
	}
	if ids := h.IDs(); slices.Contains(h.model.Settings.EndIDs, ids[len(ids)-1]) { // already read
		more = strings.TrimPrefix(more, string(h.model.Tokenizer.Decode(nil, ids[len(ids)-1:])))
	}
	ids, err := h.model.Tokenizer.Encode(nil, []byte(more))
	if err == nil && string(h.model.Tokenizer.Decode(nil, ids)) != more {
		return nil,
			request.Invalid(param, "found a tokenizer that puts something before every text, want none: append ids")
	}
	if err != nil {
		return nil, request.Invalid(param, "%v", err)
	}
	return ids, nil
}

// commonEnd returns the common suffix of two texts.
func commonEnd(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return a[len(a)-n:]
}
