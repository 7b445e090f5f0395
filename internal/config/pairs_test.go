package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestPairs(t *testing.T) {
	type shared struct {
		DState int `json:"d_state" min:"1" help:"size of the state"`
	}
	o := struct {
		shared
		Window int     `json:"window"`
		Decay  float64 `json:"decay"`
	}{shared{16}, 5, 0.5}
	if err := Pairs(&o, map[string]string{"d_state": "8", "decay": "2e-3"}); err != nil || o.DState != 8 ||
		o.Window != 5 || o.Decay != 2e-3 {
		t.Errorf("got %+v, %v", o, err)
	}
	err := Pairs(&o, map[string]string{"d_state": "0", "windw": "3", "decay": "x"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`d_state: found "0", want an integer from 1 up`, `decay: found "x", want a number`,
		`windw: unknown option, want one of d_state, window, decay; did you mean window?`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if err := Pairs(&struct{}{}, map[string]string{"a": "1"}); err == nil ||
		!strings.Contains(err.Error(), "there are none here") {
		t.Errorf("no options: %v", err)
	}
	want := []Described{{"d_state", "8", "size of the state"}, {"window", "5", ""}, {"decay", "0.002", ""}}
	if got := Describe(&o); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestOldKeys checks that a key of an earlier version is read from every layer, and is written and listed only while it
// has a value.
func TestOldKeys(t *testing.T) {
	type settings struct {
		Shards int `json:"shards"`
		Micro  int `json:"micro" config:"old"`
	}
	var c settings
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	Register(fs, &c)
	if text := Usages(fs, 0); strings.Contains(text, "micro") || !strings.Contains(text, "shards") {
		t.Errorf("the help is %q, want shards alone", text)
	}
	text, err := Marshal(&c)
	if err != nil || strings.Contains(string(text), "micro") || len(Describe(&c)) != 1 {
		t.Errorf("without a value: %q, %v, %v", text, Describe(&c), err)
	}
	if err := fs.Parse([]string{"--micro", "3"}); err != nil {
		t.Fatal(err)
	}
	if err := Load(&c, Options{Flags: fs}); err != nil || c.Micro != 3 {
		t.Errorf("found %+v, %v, want micro 3", c, err)
	}
	if text, err = Marshal(&c); err != nil || !strings.Contains(string(text), "micro: 3") || len(Describe(&c)) != 2 {
		t.Errorf("with a value: %q, %v, %v", text, Describe(&c), err)
	}
}
