package host

import (
	"context"
	"errors"
	"slices"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// Mounted is a text of a library that is read before the text of a request.
type Mounted struct {
	Name, Text string
	// IDs are the first ids of the text in a prompt, which the state At has read; none if there is no state.
	IDs  []int32
	At   *session.Snapshot
	Hash string // the content hash of the state's file
}

// Leads reports whether a plan starts with the ids of the state, in the segments in which they were read.
func (x *Mounted) Leads(plan []session.Segment) bool {
	n := len(x.IDs)
	return n > 0 && len(plan) > 0 && !plan[0].Drawn && len(plan[0].IDs) >= n && slices.Equal(plan[0].IDs[:n], x.IDs)
}

// OpenMounted is Open for a text that begins with mounted texts, whose first end ids are a multiple of the chunk. It
// starts from the state of the first mounted text, and leaves a mark after all of them, so that they are read once.
func (m *Model) OpenMounted(ctx context.Context, plan []session.Segment, mounts []Mounted, end int,
	client string) (*generate.Batch, Cached, error) {
	texts := m.TextsOf(ctx)
	switch {
	case len(mounts) == 0 || len(plan) == 0 || end > len(plan[0].IDs):
		return m.Open(ctx, plan, client)
	case texts == nil && mounts[0].Leads(plan):
		s, n := mounts[0].At.Session(m.Net), len(mounts[0].IDs)
		rest := append([]session.Segment{{IDs: plan[0].IDs[n:]}}, plan[1:]...)
		if n == len(plan[0].IDs) {
			rest = rest[1:]
		}
		found := Cached{Tokens: n, Kept: n, Miss: unstored.Miss}
		return s, found, m.Runner.Run(ctx, &session.Request{Session: s, Segments: rest, Client: client})
	case texts == nil:
		return m.Open(ctx, plan, client)
	}
	if x := &mounts[0]; x.Leads(plan) {
		if err := texts.Put(ctx, []session.Segment{{IDs: x.IDs}}, nil, x.At); err != nil {
			return nil, Cached{}, err
		}
	}
	var first Cached
	if end > 0 {
		_, found, err := texts.Open(ctx, store.Reading{
			Runner: m.Runner, Plan: []session.Segment{{IDs: plan[0].IDs[:end]}}, Client: client,
		})
		if err != nil {
			return nil, Cached{}, err
		}
		first = cachedOf(found)
	}
	s, found, err := m.Open(ctx, plan, client)
	if first.Tokens < end { // the rest has just been read
		found.Tokens, found.Miss = first.Tokens, first.Miss
	}
	return s, found, err
}

// TakesSystem reports whether the model's template writes a system message.
func (m *Model) TakesSystem(ctx context.Context) (bool, error) {
	render := func(system string) (string, error) {
		return m.Render(ctx, "mount", template.Input{Messages: []template.Message{
			template.Text(SystemRole, system), template.Text(UserRole, "a"),
		}})
	}
	one, err := render("one")
	var refused *request.Error
	if errors.As(err, &refused) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	other, err := render("other")
	return one != other, err
}
