package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestEnvironment checks that variables set flags that were not given, and that errors about wrong values and unknown
// names name the variable.
func TestEnvironment(t *testing.T) {
	type settings struct {
		Listen string   `json:"listen"`
		Rate   int      `json:"rate.limit" min:"1"`
		Names  []string `json:"names"`
	}
	load := func(environ []string, strict bool, args ...string) (settings, error) {
		s := settings{Listen: "a", Rate: 1, Names: []string{"x"}}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		Register(fs, &s)
		fs.Int("plain", 3, "")
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		if err := Environment(fs, "X_", environ, strict); err != nil {
			return s, err
		}
		err := Load(&s, Options{Flags: fs})
		if n, other := fs.GetInt("plain"); other != nil || n != 3 && n != 7 {
			t.Errorf("plain is %d: %v", n, other)
		}
		return s, err
	}
	environ := []string{"X_LISTEN=b", "X_RATE_LIMIT=5", "X_NAMES=y,z", "X_PLAIN=7", "OTHER=1"}
	got, err := load(environ, true, "--listen=c")
	if err != nil || got.Listen != "c" || got.Rate != 5 || strings.Join(got.Names, " ") != "y z" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, c := range []struct{ entry, want string }{
		{"X_LISTN=b", "X_LISTN: unknown variable; did you mean X_LISTEN?"},
		{"X_RATE_LIMIT=0", "X_RATE_LIMIT: "},
		{"X_PLAIN=seven", `X_PLAIN: found "seven"`},
	} {
		if _, err := load([]string{c.entry}, true); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.entry, err, c.want)
		}
	}
	if _, err := load([]string{"X_LIST_ALL=1"}, false); err != nil {
		t.Errorf("the variable of a command below is a problem: %v", err)
	}
}
