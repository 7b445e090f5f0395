package reply

import (
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Continued has the fields of a chat request that control how its text ends, as in vLLM.
type Continued struct {
	// Continue reports whether the last message is the start of the reply, which is then continued.
	Continue bool `json:"continue_final_message"`
	// Begin reports whether the prompt ends with the start of the reply. Clients of vLLM set it to false together with
	// Continue.
	Begin *bool `json:"add_generation_prompt"`
}

// Check returns an error if the prompt would not end with the start of a reply.
func (q *Continued) Check() error {
	if begin := request.Or(q.Begin, true); !begin && !q.Continue {
		return request.Invalid("add_generation_prompt", "found false, want true, or continue_final_message with it")
	}
	return nil
}

// Beginning returns the messages without the start of the reply, and that start, "" if there is none.
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
