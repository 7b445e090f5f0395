// Package views has the server's views of a session: the views of hippo explain that show a text, for the last tokens
// of the session.
package views

import (
	"context"
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/explain/influence"
	"github.com/hippo-ssm/hippo/explain/lens"
	"github.com/hippo-ssm/hippo/explain/memory"
	"github.com/hippo-ssm/hippo/explain/surprise"
	"github.com/hippo-ssm/hippo/serve/sessions"
)

// no and yes are the values of options that are off and on.
const (
	no  = "no"
	yes = "yes"
)

// The predictions whose gradients are shown: of the most probable next token, and of the last token.
const (
	next = "next"
	last = "last"
)

// All returns the views, the state of the model first. Only that view uses the session itself. For all others, the
// model reads the last tokens as a separate text, as in hippo explain.
func All() []sessions.View {
	return []sessions.View{{
		Name: "state", Title: "What the model holds", Tokens: []int{1024, 256, 4096}, State: true, Free: true,
		Show: stateView,
	}, {
		Name: "influence", Title: "Influence: what tokens draw on", Tokens: []int{128, 32, 64, 256, 512},
		Options: []sessions.ViewOption{{Name: "measure", Title: "Measure", Values: influence.Measures, Ahead: 2}},
		Show:    influenceView,
	}, {
		Name: "memory", Title: "Memory: what is left of tokens", Tokens: []int{128, 32, 64, 256, 512},
		Options: []sessions.ViewOption{{Name: "readout", Title: "Read-out", Values: []string{no, yes}, Ahead: 1}},
		Show:    memoryView,
	}, {
		Name: "lens", Title: "Lens: predictions after every layer", Tokens: []int{64, 16, 32, 128, 256},
		Options: []sessions.ViewOption{{Name: "without", Title: "Without one", Values: []string{no, "layer", "state"},
			Ahead: 1}},
		Show: lensView,
	}, {
		Name: "gradient", Title: "Gradients: what a prediction comes from", Tokens: []int{128, 32, 64, 256, 512},
		Options: []sessions.ViewOption{{Name: "of", Title: "Of the token", Values: []string{next, last}, Ahead: 2}},
		Show:    gradientView,
	}, {
		Name: "paths", Title: "Two paths: this session and another", Tokens: []int{64, 16, 32, 128, 256}, Pair: true,
		Options: []sessions.ViewOption{
			{Name: "ends", Title: "Ends", Values: []string{own, same}, Ahead: 1},
			{Name: "trace", Title: "Trace", Values: []string{no, yes}, Ahead: 1},
		},
		Show: pathsView,
	}, {
		Name: "surprise", Title: "Surprise: how well it is predicted", Tokens: []int{512, 128, 2048, 8192},
		Show: surpriseView,
	}}
}

// head returns the heading of a page: the view and the range of tokens.
func head(page *figure.Page, x *sessions.Viewed, read bool) *figure.Page {
	n := len(x.IDs)
	page.Subtitle = fmt.Sprintf("%s · %d tokens", x.Name, n)
	if x.Before > 0 {
		page.Subtitle = fmt.Sprintf("%s · tokens %d to %d", x.Name, x.Before, x.Before+n-1)
		note := fmt.Sprintf("The session has %d tokens, of which these are the last %d, counted from 0 here.",
			x.Before+n, n)
		if read {
			note += " They were read as a text of their own: what was before them is not in these pictures."
		}
		page.Notes = append([]string{note}, page.Notes...)
	}
	return page
}

// stateView shows the state of the model.
func stateView(_ context.Context, x *sessions.Viewed) (*figure.Page, error) {
	var tokens []string // with the line ends of the text
	for i := range x.IDs {
		tokens = append(tokens, string(x.Tokenizer.Decode(nil, x.IDs[i:i+1])))
	}
	page := head(memory.States(&x.Model.Backbone, x.State.State, tokens, x.LogProbs), x, false)
	if unread := x.Before + len(x.IDs) - x.State.Position; unread > 0 {
		page.Subtitle += fmt.Sprintf(", the last %d of which the states have not seen yet", unread)
	}
	return page, nil
}

func influenceView(ctx context.Context, x *sessions.Viewed) (*figure.Page, error) {
	r, err := influence.Of(ctx, explain.OfModel(x.Model), x.IDs, influence.Options{
		Head: influence.AllHeads, Token: influence.LastToken, Measure: x.Options["measure"],
		Next: influence.LikeliestToken,
	})
	if err != nil {
		return nil, err
	}
	return head(r.Page(explain.TokenNames(x.Tokenizer, x.IDs), ""), x, true), nil
}

func memoryView(ctx context.Context, x *sessions.Viewed) (*figure.Page, error) {
	m, err := memory.Of(ctx, explain.OfModel(x.Model), x.IDs,
		memory.Options{ReadOut: x.Options["readout"] == yes})
	if err != nil {
		return nil, err
	}
	return head(m.Page(explain.TokenNames(x.Tokenizer, x.IDs)), x, true), nil
}

func lensView(ctx context.Context, x *sessions.Viewed) (*figure.Page, error) {
	g := explain.OfModel(x.Model)
	r, err := lens.Of(ctx, g, x.IDs)
	if err != nil {
		return nil, err
	}
	page := &figure.Page{Title: "Lens: predictions after every layer", Figures: r.Figures(x.Tokenizer)}
	parts, of := []explain.Target(nil), x.Options["without"]
	switch of {
	case "layer":
		parts = g.LayerTargets()
	case "state":
		parts = g.StateTargets()
	}
	switch {
	case of == no:
	case len(parts) == 0:
		page.Notes = append(page.Notes, "No layer of this model has a state of its own to go without.")
	default:
		s, err := lens.Sweep(ctx, g, x.IDs, parts, nil)
		if err != nil {
			return nil, err
		}
		page.Figures = slices.Concat(page.Figures, s.Figures("lens-without-"+of, of, x.Tokenizer))
	}
	return head(page, x, true), nil
}

func gradientView(ctx context.Context, x *sessions.Viewed) (*figure.Page, error) {
	o := influence.GradientOptions{Token: influence.LastToken, Next: influence.LikeliestToken}
	if n := len(x.IDs); x.Options["of"] == last {
		if n < 2 {
			return nil, fmt.Errorf("found a text of %d tokens, want two or more: the last is predicted from those "+
				"before it", n)
		}
		o.Token, o.Next = n-2, x.IDs[n-1]
	}
	r, err := influence.GradientsOf(ctx, explain.OfModel(x.Model), x.IDs, o)
	if err != nil {
		return nil, err
	}
	page := r.Page(explain.TokenNames(x.Tokenizer, x.IDs), explain.TokenNames(x.Tokenizer, []int32{r.Next})[0])
	return head(page, x, true), nil
}

// surprisePiece is the number of tokens read between checks for cancellation.
const surprisePiece = 128

func surpriseView(ctx context.Context, x *sessions.Viewed) (*figure.Page, error) {
	g, o := explain.OfModel(x.Model), surprise.DefaultOptions()
	tokens, err := data.FromIDs(x.IDs, x.Model.Config.PaddedVocab())
	if err != nil {
		return nil, err
	}
	o.SeqLen, o.Stream = surprisePiece, true
	if longest := g.MaxLength(); longest > 0 { // if there is a limit, no session exceeds it
		o.SeqLen, o.Stream = longest, false
	}
	r, err := surprise.Measure(ctx, g, tokens, o)
	if err != nil {
		return nil, err
	}
	r.Bytes = int64(len(x.Tokenizer.Decode(nil, x.IDs[1:])))
	page := &figure.Page{Title: "Surprise: how well the text is predicted", Figures: r.Figures(x.Tokenizer)}
	return head(page, x, true), nil
}
