package serve

// continued are the fields of a chat's request that say how its text ends, as vLLM has them.
type continued struct {
	// Continue: the last message is the beginning of the reply, which goes on from there.
	Continue bool `json:"continue_final_message"`
}

// beginning takes the beginning of the reply off the messages, where there is one.
func (q *conversation) beginning() (messages []message, begins string, err error) {
	if !q.goesOn {
		return q.messages, "", nil
	}
	last := q.messages[len(q.messages)-1]
	if last.Role() != assistantRole {
		return nil, "", wrong("continue_final_message", "found true and a last message of the role %.40q, want %s",
			last.Role(), assistantRole)
	}
	if q.format.Type != "" && q.format.Type != "text" {
		return nil, "", wrong("continue_final_message", "found true and a %s, want one of them", q.param)
	}
	return q.messages[:len(q.messages)-1], last.Content(), nil
}
