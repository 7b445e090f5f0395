package host

import (
	"context"
	"errors"
	"testing"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestClientsTakeTurnsCompiling checks that a client's second grammar waits while its first one is compiled, and
// another client's does not.
func TestClientsTakeTurnsCompiling(t *testing.T) {
	m := &Model{ModelOptions: ModelOptions{Tokenizer: tokenizer.Bytes(), Settings: &chat.Settings{}}}
	compile := func(client string) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // give up at once if it has to wait
		track := &request.Track{}
		track.Share = request.Share{Client: client, Others: true}
		_, err := m.Constraint(track.Context(ctx), "grammar", client, constrain.OneOf([]string{"a"}), nil)
		return err
	}
	if err := compiling.Enter(t.Context(), request.Share{Client: "busy", Others: true}); err != nil {
		t.Fatal(err)
	}
	defer compiling.Leave("busy")
	if err := compile("busy"); !errors.Is(err, context.Canceled) {
		t.Errorf("a second grammar of the client: %v, want one that waits", err)
	}
	if err := compile("other"); err != nil {
		t.Errorf("a grammar of another client: %v", err)
	}
}
