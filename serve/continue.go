package serve

import "context"

// continued are the fields of a chat's request that say how its text ends, as vLLM has them.
type continued struct {
	// Continue: the last message is the beginning of the reply, which goes on from there.
	Continue bool `json:"continue_final_message"`
}

// encode is the ids of a conversation up to where the reply begins, or goes on.
func (q *chatRequest) encode(ctx context.Context, m *Model) ([]int32, error) {
	if !q.Continue {
		return m.encodeChat(ctx, "messages", q.Messages)
	}
	last := q.Messages[len(q.Messages)-1]
	if last.Role() != assistantRole {
		return nil, wrong("continue_final_message", "found true and a last message of the role %.40q, want %s",
			last.Role(), assistantRole)
	}
	text, err := m.chatText(ctx, "messages", q.Messages[:len(q.Messages)-1])
	if err != nil {
		return nil, err
	}
	ids, err := m.tok.Encode(nil, []byte(text+last.Content()))
	if err != nil {
		return nil, wrong("messages", "%v", err)
	}
	return ids, nil
}
