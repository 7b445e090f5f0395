package config

import (
	"slices"
	"strings"
	"testing"
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
