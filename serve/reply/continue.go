package reply

import (
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Continued are the fields of a chat's request that say how its text ends, as vLLM has them.
type Continued struct {
	// Continue: the last message is the beginning of the reply, which goes on from there.
	Continue bool `json:"continue_final_message"`
}

// Beginning removes the beginning of the reply from the messages, if there is one.
func (q *Chat) Beginning() (messages []Message, begins string, err error) {
	if !q.Continue {
		return q.Messages, "", nil
	}
	last := q.Messages[len(q.Messages)-1]
	if last.Role() != host.AssistantRole {
		return nil, "", request.Invalid("continue_final_message",
			"found true and a last message of the role %.40q, want %s",
			last.Role(), host.AssistantRole)
	}
	if q.Format.Type != "" && q.Format.Type != "text" {
		return nil, "", request.Invalid("continue_final_message", "found true and a %s, want one of them", q.Param)
	}
	return q.Messages[:len(q.Messages)-1], last.Content(), nil
}
