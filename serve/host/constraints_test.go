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

// TestClientsTakeTurnsCompiling: a client whose grammar is being compiled waits with its next one, and another does
// not.
func TestClientsTakeTurnsCompiling(t *testing.T) {
	m := &Model{ModelOptions: ModelOptions{Tokenizer: tokenizer.Bytes(), Settings: &chat.Settings{}}}
	compile := func(client string) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // who has to wait gives up at once
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
