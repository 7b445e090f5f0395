package main

import (
	"context"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/session"
)

// sessionViews are what a server shows of sessions.
func sessionViews() []serve.View {
	return []serve.View{{
		Name: "state", Title: "What the model holds",
		Show: func(_ context.Context, x *session.Session, tokens []string) (*figure.Page, error) {
			m := x.Model()
			return explain.States(&m.Backbone, x.Snapshot().State, tokens, x.LogProbs()), nil
		},
	}}
}
