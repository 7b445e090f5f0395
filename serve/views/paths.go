package views

import (
	"context"
	"fmt"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/explain/paths"
	"github.com/hippo-ssm/hippo/serve/sessions"
)

// Where two paths end: each at its own end, or both after the same number of tokens, so that their tokens can be
// exchanged one by one.
const (
	own  = "own"
	same = "same"
)

// tracedTokens is the number of tokens traced after two paths diverge. Each of them is read again once per layer, with
// all tokens after it.
const tracedTokens = 16

func pathsView(ctx context.Context, x *sessions.Viewed) (*figure.Page, error) {
	g, a, b := explain.OfModel(x.Model), x.IDs, x.Other.IDs
	trace := x.Options["trace"] == yes
	if n := min(len(a), len(b)); trace || x.Options["ends"] == same {
		if trace {
			n = min(n, paths.Common(a, b)+tracedTokens)
		}
		a, b = a[:n], b[:n]
	}
	r, err := paths.Compare(ctx, g, a, b)
	if err != nil {
		return nil, err
	}
	page := &figure.Page{Title: "Two paths", Figures: r.Figures(x.Tokenizer)}
	page.Subtitle = fmt.Sprintf("%s · path 1: session %s, %d tokens · path 2: session %s, %d tokens · the first %d "+
		"the same", x.Name, short(x.ID), x.Before+len(x.IDs)+x.Behind, short(x.Other.ID), x.Other.Position,
		x.Before+r.Common)
	if trace {
		t, err := paths.Trace(ctx, g, a, b, nil)
		switch {
		case err == nil:
			page.Figures = append(t.Figures(x.Tokenizer), page.Figures...)
		case ctx.Err() != nil:
			return nil, err
		default:
			page.Notes = append(page.Notes, fmt.Sprintf("There is no trace: %v.", err))
		}
	}
	if x.Before > 0 {
		page.Notes = append(page.Notes, fmt.Sprintf("Tokens are counted from 0 at token %d of the sessions. They were "+
			"read as texts of their own: what was before them is not in these pictures.", x.Before))
	}
	for i, left := range []int{len(x.IDs) + x.Behind - len(a), x.Other.Position - x.Before - len(b)} {
		if left > 0 {
			page.Notes = append(page.Notes, fmt.Sprintf("The last %d tokens of path %d were not read.", left, i+1))
		}
	}
	return page, nil
}

// short returns the end of a session's id, as lists show it.
func short(id string) string { return id[max(0, len(id)-shortID):] }

const shortID = 6
