package host

import (
	"testing"

	"github.com/hippo-ssm/hippo/chat"
)

// TestParametersOfAModel checks that a model's settings are written line by line, with temperature 0 for no sampling.
func TestParametersOfAModel(t *testing.T) {
	temperature, k, never := 0.6, 20, false
	got := parameters(chat.Defaults{Temperature: &temperature, TopK: &k})
	if want := "temperature 0.6\ntop_k 20"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got = parameters(chat.Defaults{Temperature: &temperature, DoSample: &never})
	if want := "temperature 0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := parameters(chat.Defaults{}, "</s>", "\n\n"), `stop "</s>"`+"\n"+`stop "\n\n"`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := parameters(chat.Defaults{}); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}
