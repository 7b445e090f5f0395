package reply

import (
	"context"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// Mounting is the field that mounts texts of a library, by name and in order. The model reads them before the text of
// the request.
type Mounting struct {
	Mount []string `json:"mount"`
}

// maxMounts is the maximum number of texts of a request.
const maxMounts = 16

// Library finds texts by name.
type Library interface {
	// Mount returns texts for a model. The client of the request must be allowed to mount them.
	Mount(c *request.Call, m *host.Model, names []string) ([]host.Mounted, error)
}

// Mounts are the texts that a request mounts.
type Mounts []host.Mounted

// Mounts finds the texts that a request mounts.
func (s *Service) Mounts(c *request.Call, m *host.Model, q Mounting) (Mounts, error) {
	switch n := len(q.Mount); {
	case n == 0:
		return nil, nil
	case n > maxMounts:
		return nil, request.Invalid("mount", "found %d texts, want at most %d", n, maxMounts)
	}
	return s.Library.Mount(c, m, q.Mount)
}

// Text returns the texts, each followed by an empty line. So the text of a prefix of the list does not depend on the
// texts that follow.
func (a Mounts) Text() string {
	var b strings.Builder
	for _, x := range a {
		b.WriteString(x.Text)
		b.WriteString("\n\n")
	}
	return b.String()
}

// before returns messages with the texts at the start of the system message, which is first. If the template takes no
// system message, they are at the start of the first user message.
func (a Mounts) before(ctx context.Context, m *host.Model, messages []template.Message) ([]template.Message, error) {
	if len(a) == 0 {
		return messages, nil
	}
	role, at := host.SystemRole, 0
	takes, err := m.TakesSystem(ctx)
	if err != nil {
		return nil, err
	}
	if !takes {
		role = host.UserRole
		at = max(0, slices.IndexFunc(messages, func(x template.Message) bool { return x.Role() == role }))
	}
	if at < len(messages) && messages[at].Role() == role {
		messages = slices.Clone(messages)
		messages[at] = messages[at].WithContent(a.Text() + messages[at].Content())
		return messages, nil
	}
	return slices.Insert(slices.Clone(messages), at, template.Text(role, a.Text())), nil
}

// spare is the number of tokens before the end of the texts that may depend on the following text, since a tokenizer
// joins characters across the boundary.
const spare = 4

// End returns the number of ids at the start of a prompt that belong to the texts, whatever follows, rounded down to a
// multiple of the chunk. It returns 0 if the template has changed the texts.
func (a Mounts) End(m *host.Model, prompt string, ids []int32) int {
	text := strings.TrimSpace(a.Text())
	at := strings.Index(prompt, text)
	if text == "" || at < 0 {
		return 0
	}
	rest, err := m.Tokenizer.Encode(nil, []byte(prompt[at+len(text):]))
	if err != nil {
		return 0
	}
	chunk := session.Chunk(m.Net)
	return max(0, len(ids)-len(rest)-spare) / chunk * chunk
}

// Encode returns the ids of a prompt after the texts, and the number of them that belong to the texts: see End.
func (a Mounts) Encode(m *host.Model, p request.Prompt) (ids []int32, end int, err error) {
	if len(a) > 0 && p.IDs != nil {
		before, err := m.Encode(request.Prompt{Text: a.Text()})
		return append(before, p.IDs...), max(0, len(before)-spare) / session.Chunk(m.Net) * session.Chunk(m.Net), err
	}
	p.Text = a.Text() + p.Text
	if ids, err = m.Encode(p); err != nil {
		return nil, 0, err
	}
	return ids, a.End(m, p.Text, ids), nil
}

// MountIDs returns the first ids of every chat that mounts a text, or of every prompt if the model has no chat
// template. Their number is a multiple of the chunk.
func MountIDs(ctx context.Context, m *host.Model, text string) ([]int32, error) {
	const said = "a"
	a := Mounts{{Text: text}}
	if m.Settings.Template == nil {
		ids, end, err := a.Encode(m, request.Prompt{Text: said})
		return ids[:end], err
	}
	d, err := Converse(ctx, m, "mount", &Chat{Messages: []Message{NewMessage(host.UserRole, said)}, Mounts: a})
	if err != nil {
		return nil, err
	}
	return d.IDs[:d.Mounted], nil
}
