package chat

import (
	"fmt"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// file is a saved chat: its messages, in the usual format.
type file struct {
	Messages []template.Message `json:"messages"`
}

// Save writes the messages of a chat as JSON. It does not write the states: after Load the messages are read again.
func (c *Chat) Save(path string) error {
	return disk.WriteJSON(path, file{c.Messages()})
}

// Load replaces the messages of the chat by those that Save wrote, with any model.
func (c *Chat) Load(path string) error {
	var f file
	if err := disk.ReadJSON(path, &f); err != nil {
		return err
	}
	if f.Messages == nil {
		return brief.Error(fmt.Errorf(`%s: found no "messages", want a chat that /save wrote`, path))
	}
	c.SetMessages(f.Messages)
	return nil
}
