package serve_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
)

// described is a part of /openapi.json.
type described struct {
	Paths map[string]map[string]struct {
		ID       string `json:"operationId"`
		Security []map[string][]string
		Body     struct {
			Content map[string]struct {
				Schema struct {
					Properties map[string]map[string]any
				}
			}
		} `json:"requestBody"`
	}
}

// TestOpenAPI checks that the document has exactly the endpoints of the server. For each that reads JSON, it has
// exactly the fields that are read: a number out of all ranges is an error in these fields, and in no other field.
func TestOpenAPI(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{MaxSessions: 1 << 20})
	_, _, data := s.Do(http.MethodGet, "/openapi.json", "")
	doc := servetest.Decode[described](t, data)
	ids, n := map[string]bool{}, 0
	for path, of := range doc.Paths {
		for method, o := range of {
			if ids[o.ID] || o.ID == "" {
				t.Errorf("%s %s: found the id %q, want one of its own", method, path, o.ID)
			}
			ids[o.ID] = true
			n++
		}
	}
	scopes := s.Hippo.Scopes()
	for pattern, scope := range scopes {
		method, path, _ := strings.Cut(strings.NewReplacer("...}", "}", "{$}", "").Replace(pattern), " ")
		o, ok := doc.Paths[path][strings.ToLower(method)]
		if !ok {
			t.Errorf("%s is not described", pattern)
		}
		if want := scope != ""; want != (len(o.Security) == 1) || want && o.Security[0]["key"][0] != scope {
			t.Errorf("%s: found the scope %v, want %q", pattern, o.Security, scope)
		}
	}
	if n != len(scopes) {
		t.Errorf("%d endpoints are described, want %d", n, len(scopes))
	}

	names := map[string]bool{}
	fields := map[string]map[string]map[string]any{}
	for path, of := range doc.Paths {
		for method, o := range of {
			if body, ok := o.Body.Content["application/json"]; ok {
				fields[strings.ToUpper(method)+" "+path] = body.Schema.Properties
				for name := range body.Schema.Properties {
					names[name] = true
				}
			}
		}
	}
	for _, form := range s.Hippo.Forms() { // including those that the document may omit everywhere
		if form.Body != nil {
			for _, f := range reflect.VisibleFields(reflect.TypeOf(form.Body)) {
				if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
					names[name] = true
				}
			}
		}
	}
	if len(fields) < 30 || len(names) < 80 {
		t.Errorf("found %d bodies with %d fields, want more", len(fields), len(names))
	}
	for _, pattern := range slices.Sorted(maps.Keys(fields)) {
		method, path, _ := strings.Cut(pattern, " ")
		send := func(names ...string) string {
			body := map[string]json.RawMessage{}
			for _, name := range names {
				body[name] = json.RawMessage("1e999")
			}
			_, answer := servetest.Ask(t.Context(), s.Hippo, method, path, servetest.Quoted(t, body))
			return answer
		}
		var others []string
		for name := range names {
			schema, there := fields[pattern][name]
			if !there {
				others = append(others, name)
			} else if data := servetest.Quoted(t, schema); data != "{}" && name != "options" { // those are read later
				if answer := send(name); !wrongNumber.MatchString(answer) {
					t.Errorf("%s: %s is described and not read: %s", pattern, name, answer)
				}
			}
		}
		for {
			answer := send(others...)
			refused := refusedField.FindStringSubmatch(answer)
			if refused == nil {
				if wrongNumber.MatchString(answer) {
					t.Errorf("%s: found a field that is not described: %s", pattern, answer)
				}
				break
			}
			others = slices.DeleteFunc(others, func(name string) bool { return name == refused[1] })
		}
	}
}

// Errors of a number out of range, and of a refused field.
var (
	wrongNumber  = regexp.MustCompile(`: found (a JSON number( 1e999)?|1e999), want`)
	refusedField = regexp.MustCompile(`"(\w+): found 1e999, which this server does not implement`)
)
