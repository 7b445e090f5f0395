package serve

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

var example = regexp.MustCompile(`(?m)^curl (?:-X ([A-Z]+) )?http://127\.0\.0\.1:8080(/\S*)(?: -d '([^']*)')?$`)

// TestPageOfTheServer: every example of docs/server.md works, and there is one for every endpoint.
func TestPageOfTheServer(t *testing.T) {
	page, err := os.ReadFile("../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, Options{Library: &newBooks(t, "org/model").Library})
	found := example.FindAllStringSubmatch(string(page), -1)
	if n := strings.Count(string(page), "\ncurl "); n != len(found) {
		t.Errorf("%d examples are understood of %d", len(found), n)
	}
	shown := map[string]bool{}
	for _, e := range found {
		method := http.MethodGet
		if e[3] != "" {
			method = http.MethodPost
		}
		if e[1] != "" {
			method = e[1]
		}
		if status, _, data := s.do(method, e[2], e[3]); status != http.StatusOK {
			t.Errorf("%s: status %d: %s", e[0], status, data)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+e[2], nil)
		if err != nil {
			t.Fatal(err)
		}
		_, pattern := s.server.mux.Handler(r)
		shown[pattern] = true
	}
	for _, r := range s.server.endpoints() {
		if !shown[r.pattern] {
			t.Errorf("%s has no example", r.pattern)
		}
	}
}
