package host

import (
	"context"
	"errors"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/serve/request"
)

const (
	SystemRole    = "system"
	AssistantRole = "assistant"
	UserRole      = "user"
)

// Render returns the text that the template produces. An error of the template is an error of the given field.
func (m *Model) Render(ctx context.Context, param string, in template.Input) (string, error) {
	text, err := m.Settings.Render(ctx, in)
	var mistake *template.Error
	if errors.As(err, &mistake) {
		err = request.Invalid(param, "%v", err)
	}
	return text, err
}

// WithMessage returns the input of a template with one more message.
func WithMessage(in template.Input, m template.Message) template.Input {
	in.Messages = append(in.Messages[:len(in.Messages):len(in.Messages)], m)
	return in
}
