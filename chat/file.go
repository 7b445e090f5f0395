package chat

import (
	"fmt"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// file is a saved chat: its messages, as everybody writes them.
type file struct {
	Messages []template.Message `json:"messages"`
}

// Save writes the messages of a chat as JSON. The states are not written: after Load they are read again.
func (c *Chat) Save(path string) error {
	return disk.WriteJSON(path, file{c.Messages()})
}

// Load makes the chat one that Save wrote, with any model.
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
