package library

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/release/hub"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// pull downloads a published model for a client.
func pull(ctx context.Context, text string, report func(host.PullProgress)) error {
	name, err := hub.ParseName(text)
	if err != nil {
		return request.Invalid("model", "%v", err)
	}
	client, err := hub.FromEnvironment()
	if err != nil {
		return err
	}
	plan, err := client.Plan(ctx, name)
	var none *hub.NotFoundError
	if errors.As(err, &none) {
		return &request.Error{
			Status: http.StatusNotFound, Param: "model", Code: "model_not_found",
			Message: fmt.Sprintf("model: %s: %v", name, brief.Error(err)),
		}
	}
	if err != nil {
		return err
	}
	report(host.PullProgress{Status: "pulling manifest"}) // the name is valid
	client.Watch = hub.Watch{
		Bytes: func(done, total int64) {
			report(host.PullProgress{
				Status: "pulling " + name.String(), Digest: "sha1:" + plan.Commit, Done: done, Total: total,
			})
		},
		Note: func(format string, args ...any) {
			report(host.PullProgress{Status: brief.Line(fmt.Sprintf(format, args...))})
		},
	}
	_, err = client.Pull(ctx, plan, false)
	return err
}

// remove deletes a model of the hub's cache.
func (l *Library) remove(_ context.Context, info host.ModelInfo) error {
	if slices.ContainsFunc(l.all(), func(n namedModel) bool { return n.name == info.Name }) {
		return fmt.Errorf("%s was given to hippo serve by its name, want a model of the cache", info.Name)
	}
	name, err := hub.ParseName(info.Name)
	if err != nil {
		return err
	}
	cache, err := hub.DefaultCache()
	if err != nil {
		return err
	}
	plan, err := cache.PlanRemoval(name)
	if err != nil {
		return err
	}
	return plan.Remove()
}
