package serve

import (
	"context"
	"errors"

	"github.com/hippo-ssm/hippo/chat/template"
)

const (
	systemRole    = "system"
	assistantRole = "assistant"
	userRole      = "user"
)

// render is the text that the template makes. An error of the template is one of the given field.
func (m *Model) render(ctx context.Context, param string, in template.Input) (string, error) {
	text, err := m.settings.Render(ctx, in)
	var mistake *template.Error
	if errors.As(err, &mistake) {
		err = wrong(param, "%v", err)
	}
	return text, err
}

// with is what a template is given, and one message more.
func with(in template.Input, role, text string) template.Input {
	in.Messages = append(in.Messages[:len(in.Messages):len(in.Messages)], template.Text(role, text))
	return in
}
