package servetest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/hippo-ssm/hippo/serve/sessions"

	fig "github.com/hippo-ssm/hippo/explain/figure"
)

// TokenPage returns a page that shows tokens.
func TokenPage(title string, tokens []string) *fig.Page {
	return &fig.Page{Title: title, Figures: []*fig.Figure{{Name: "one", Frames: []fig.Frame{{Panels: []fig.Panel{{
		Text: &fig.Text{Tokens: tokens, Mark: -1}}}}}}}}
}

// TokensOf returns a page that shows the tokens of a session.
func TokensOf(_ context.Context, x *sessions.Viewed) (*fig.Page, error) {
	var tokens []string
	for i := range x.IDs {
		tokens = append(tokens, string(x.Tokenizer.Decode(nil, x.IDs[i:i+1])))
	}
	return TokenPage("tokens", tokens), nil
}

// TestViews holds a view that shows the tokens of a session, one that fails, and one for which the model reads the text
// again.
var TestViews = []sessions.View{
	{Name: "state", Title: "Its tokens", Tokens: []int{64}, State: true, Free: true, Show: TokensOf},
	{Name: "broken", Title: "None", Tokens: []int{64}, Show: func(context.Context, *sessions.Viewed) (*fig.Page,
		error) {
		return nil, errors.New("nothing to see")
	}},
	{Name: "influence", Title: "What tokens draw on", Tokens: []int{4, 2, 64},
		Options: []sessions.ViewOption{{Name: "measure", Title: "Measure", Values: []string{"share", "mean"}}},
		Show:    TokensOf},
}

// Explained is an explanation with the fields that the tests check.
type Explained struct {
	View     string
	Options  map[string]string
	Views    []sessions.View
	Position int
	Tokens   int
	Other    sessions.Paired
	Head     struct{ Title string }
	Figures  []*fig.Figure
}

// Text returns the text of the tokens.
func (e *Explained) Text() string {
	return strings.Join(e.Figures[0].Frames[0].Panels[0].Text.Tokens, "")
}

// Explain requests a view.
func (s *Site) Explain(path, query string) *Explained {
	s.T.Helper()
	status, _, data := s.Do(http.MethodGet, path+"/explain"+query, "")
	got := &Explained{}
	if err := json.Unmarshal(data, got); err != nil || status != http.StatusOK {
		s.T.Fatalf("%s: status %d: %s (%v)", query, status, data, err)
	}
	return got
}
