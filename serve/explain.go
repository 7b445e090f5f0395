package serve

import (
	"context"

	fig "github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/session"
)

// View explains a session as it is now. Show gets the texts of its tokens. It must not change the session.
type View struct {
	Name  string                                                                            `json:"name"`
	Title string                                                                            `json:"title"`
	Show  func(ctx context.Context, x *session.Session, tokens []string) (*fig.Page, error) `json:"-"`
}

// explanation is what GET /v1/sessions/{id}/explain answers: what a page of figures has, with its figures.
type explanation struct {
	Object   string        `json:"object"`
	View     string        `json:"view"`
	Views    []View        `json:"views"` // that there are
	Position int           `json:"position"`
	Head     fig.Head      `json:"head"`
	Figures  []*fig.Figure `json:"figures"`
}

// explainSession answers with a view of a session, the first if none is named.
func (s *Server) explainSession(c *call) error {
	views := s.o.Views
	if len(views) == 0 {
		return wrong("view", "this server explains nothing")
	}
	view := views[0]
	if name := c.r.FormValue("view"); name != "" {
		found := false
		var names []string
		for _, v := range views {
			names = append(names, v.Name)
			if v.Name == name {
				view, found = v, true
			}
		}
		if !found {
			return wrong("view", "found %.60q, want one of %q", name, names)
		}
	}
	return s.withSession(c, func(ctx context.Context, h *held) error {
		var tokens []string
		for _, id := range h.IDs() {
			tokens = append(tokens, string(h.model.tok.Decode(nil, []int32{id})))
		}
		var page *fig.Page
		err := contained(ctx, 0, func(ctx context.Context, _ int) (err error) {
			page, err = view.Show(ctx, h.Session, tokens)
			if err == nil {
				err = page.Check()
			}
			if err != nil && ctx.Err() == nil {
				return wrong("view", "%s: %v", view.Name, err)
			}
			return err
		})
		if err != nil {
			return err
		}
		return c.json(explanation{"session.explanation", view.Name, views, h.Position(), page.Head(), page.Figures})
	})
}
