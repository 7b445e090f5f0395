package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	fig "github.com/hippo-ssm/hippo/explain/figure"
)

// tokenPage is a page with tokens.
func tokenPage(title string, tokens []string) *fig.Page {
	return &fig.Page{Title: title, Figures: []*fig.Figure{{Name: "one", Frames: []fig.Frame{{Panels: []fig.Panel{{
		Text: &fig.Text{Tokens: tokens, Mark: -1}}}}}}}}
}

// tokensOf is a view's page of its tokens.
func tokensOf(_ context.Context, x *Viewed) (*fig.Page, error) {
	var tokens []string
	for i := range x.IDs {
		tokens = append(tokens, string(x.Tokenizer.Decode(nil, x.IDs[i:i+1])))
	}
	return tokenPage("tokens", tokens), nil
}

// testViews are one that shows the tokens of a session, one that cannot, and one of what the model reads again.
var testViews = []View{
	{Name: "state", Title: "Its tokens", Tokens: []int{64}, State: true, Free: true, Show: tokensOf},
	{Name: "broken", Title: "None", Tokens: []int{64}, Show: func(context.Context, *Viewed) (*fig.Page, error) {
		return nil, errors.New("nothing to see")
	}},
	{Name: "influence", Title: "What tokens draw on", Tokens: []int{4, 2, 64},
		Options: []ViewOption{{Name: "measure", Title: "Measure", Values: []string{"share", "mean"}}}, Show: tokensOf},
}

// explained is an explanation with what the tests look at.
type explained struct {
	View     string
	Options  map[string]string
	Views    []View
	Position int
	Tokens   int
	Other    Paired
	Head     struct{ Title string }
	Figures  []*fig.Figure
}

// text is that of the tokens.
func (e *explained) text() string {
	return strings.Join(e.Figures[0].Frames[0].Panels[0].Text.Tokens, "")
}

// explain asks for a view.
func (s *site) explain(path, query string) *explained {
	s.t.Helper()
	status, _, data := s.do(http.MethodGet, path+"/explain"+query, "")
	got := &explained{}
	if err := json.Unmarshal(data, got); err != nil || status != http.StatusOK {
		s.t.Fatalf("%s: status %d: %s (%v)", query, status, data, err)
	}
	return got
}
