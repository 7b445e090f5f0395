package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/hubtest"
)

// TestPullOnTerminal checks that a pull shows a progress bar on a terminal, and that no control characters in the
// responses of a hub reach the terminal.
func TestPullOnTerminal(t *testing.T) {
	t.Parallel()
	h := hubtest.New(t.Cleanup)
	h.Repos["org/model"] = hubtest.Repo{"main": {"config.json": []byte(`{"model_type": "red \u001b[31m"}`),
		"model.pt": make([]byte, 1<<20), "evil\x1b[31m.gguf": nil}}
	dir := t.TempDir()
	for _, x := range []struct{ command, want string }{
		{"pull org/model", "[======================]  1.0 MiB/1.0 MiB"},
		{"list", `red \x1b[31m`},
		{"show org/model", `red \x1b[31m`},
	} {
		cmd := command(dir, strings.Fields(x.command)...)
		cmd.Env = append(cmd.Env, "HF_ENDPOINT="+h.URL)
		s := onTerminal(t, cmd)
		s.wantEnd(0)
		<-s.read
		if text := s.text(); !strings.Contains(text, x.want) {
			t.Errorf("%s: found no %q in\n%q", x.command, x.want, text)
		}
		if found := regexp.MustCompile(`[^\P{Cc}\n\t\r]`).FindString(s.text()); found != "" {
			t.Errorf("%s: the control character %q reached the terminal", x.command, found)
		}
	}
}
