package serve

import (
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	example = regexp.MustCompile(
		`(?m)^curl (?:-X (\w+) |(-I) )?http://127\.0\.0\.1:8080(/\S*)(?: -d '([^']*)'| (-F .*))?$`)
	objects = regexp.MustCompile(`[A-Z]+_ID\b`) // FILE_ID is the id of the last file that an answer has shown
	attach  = regexp.MustCompile("(?s)```jsonl\n(.*?)```")
)

// TestPageOfTheServer: every example of docs/server.md works, and there is one for every endpoint.
func TestPageOfTheServer(t *testing.T) {
	page, err := os.ReadFile("../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, Options{})
	found := example.FindAllStringSubmatch(string(page), -1)
	if n := strings.Count(string(page), "\ncurl "); n != len(found) {
		t.Errorf("%d examples are understood of %d", len(found), n)
	}
	shown := map[string]bool{}
	ids := map[string]string{}
	named := func(text string) string {
		return objects.ReplaceAllStringFunc(text, func(name string) string { return ids[name] })
	}
	for _, e := range found {
		method, path := cmp.Or(e[1], http.MethodGet), named(e[3])
		switch {
		case e[2] != "":
			method = http.MethodHead
		case e[1] == "" && e[4]+e[5] != "":
			method = http.MethodPost
		}
		var status int
		var data []byte
		for range 1000 {
			if e[5] != "" {
				file := attach.FindStringSubmatch(string(page))[1]
				status, data = s.upload(map[string]string{"purpose": "batch"}, file)
			} else {
				status, _, data = s.do(method, path, named(e[4]))
			}
			if status != http.StatusConflict { // a file is read by a batch that has not ended
				break
			}
			time.Sleep(time.Millisecond)
		}
		if status != http.StatusOK {
			t.Errorf("%s: status %d: %s", e[0], status, data)
		}
		var shows struct{ Object, ID string }
		if json.Unmarshal(data, &shows) == nil {
			ids[strings.ToUpper(shows.Object)+"_ID"] = shows.ID
		}
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
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
