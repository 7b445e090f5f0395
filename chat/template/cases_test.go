package template

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"
)

// reference is a case of testdata/cases.json or cases_python.json: a template with its variables, and what another
// implementation renders. cases.mjs and cases.py in that folder name the implementation.
type reference struct {
	Name     string                     `json:"name"`
	Template string                     `json:"template"`
	Context  map[string]json.RawMessage `json:"context"`
	Want     string                     `json:"want"`
	Error    string                     `json:"error"` // from raise_exception, or any other error
}

func references(t testing.TB, path string) (cases []reference) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestAgainstReference checks that templates render as in another implementation, and fail where they fail there.
func TestAgainstReference(t *testing.T) {
	for _, path := range []string{"testdata/cases.json", "testdata/cases_python.json"} {
		for _, c := range references(t, path) {
			t.Run(c.Name, c.check)
		}
	}
}

func (c reference) check(t *testing.T) {
	got, err := c.render(t)
	switch e := (*Error)(nil); {
	case c.Error != "" && err == nil:
		t.Errorf("got %q, want the error %q", got, c.Error)
	case c.Error == "" && err != nil:
		t.Errorf("got %v, want %q", err, c.Want)
	case c.Error != "" && !errors.As(err, &e):
		t.Errorf("got the error %v, which is no *Error", err)
	case c.Error != "" && e.Raised && e.Text != c.Error:
		t.Errorf("got the error %q, want %q", e.Text, c.Error)
	case got != c.Want:
		t.Errorf("got  %q\nwant %q", got, c.Want)
	}
}

func (c reference) render(t *testing.T) (string, error) {
	tmpl, err := Parse(c.Template)
	if err != nil {
		return "", err
	}
	return tmpl.Render(t.Context(), Input{More: c.Context, Now: time.Date(2026, 3, 7, 9, 5, 0, 0, time.UTC)})
}
