package serve_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
)

var (
	example = regexp.MustCompile(`(?m)^curl (?:-X ([A-Z]+) |(-I) )?(?:-o (\S+) )?` +
		`["']?http://127\.0\.0\.1:8080(/[^\s"']*)["']?(?: -d '([^']*)'| --data-binary @(\S+)| (-F .*))?$`)
	// variable matches an example's placeholder for an id from an earlier example, such as $RESPONSE.
	variable = regexp.MustCompile(`\$[A-Z_]+`)
	attach   = regexp.MustCompile("(?s)```jsonl\n(.*?)```")
)

// TestPageOfTheServer checks that every example of docs/server.md works, and that every endpoint has one.
func TestPageOfTheServer(t *testing.T) {
	page, err := os.ReadFile("../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	s := servetest.NewSite(t, serve.Options{Library: &servetest.NewLibrary(t, "org/model").Library,
		Views:      servetest.TestViews,
		Predictors: servetest.TestPredictors(t)})
	found := example.FindAllStringSubmatch(string(page), -1)
	if n := strings.Count(string(page), "\ncurl "); n != len(found) {
		t.Errorf("%d examples are understood of %d", len(found), n)
	}
	shown := map[string]bool{}
	ids, files := map[string]string{}, map[string]string{}
	for _, e := range found {
		fill := func(text string) string {
			return variable.ReplaceAllStringFunc(text, func(name string) string { return ids[name] })
		}
		method, path, body := cmp.Or(e[1], http.MethodGet), fill(e[4]), fill(e[5])+files[e[6]]
		switch {
		case e[2] != "":
			method = http.MethodHead
		case e[1] == "" && body+e[7] != "":
			method = http.MethodPost
		}
		var status int
		var data []byte
		for {
			if e[7] != "" {
				file := attach.FindStringSubmatch(string(page))[1]
				status, data = s.Upload(map[string]string{"purpose": "batch"}, file)
			} else {
				status, _, data = s.Do(method, path, body)
			}
			if status != http.StatusConflict { // the file is being read by an unfinished batch
				break
			}
			time.Sleep(time.Millisecond)
		}
		if status != http.StatusOK {
			t.Errorf("%s: status %d: %s", e[0], status, data)
		}
		if e[3] != "" {
			files[e[3]] = string(data)
		}
		var made struct {
			ID, Object, Type string
			First            string `json:"first_id"`
		}
		if json.Unmarshal(data, &made) == nil && made.ID != "" {
			ids["$"+strings.ToUpper(cmp.Or(made.Object, made.Type))] = made.ID
		}
		if made.First != "" {
			ids["$ITEM"] = made.First
		}
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		pattern := s.Hippo.Pattern(r)
		shown[pattern] = true
	}
	for _, pattern := range s.Hippo.Patterns() {
		if !shown[pattern] {
			t.Errorf("%s has no example", pattern)
		}
	}
}
