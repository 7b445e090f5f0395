package serve_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
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

// TestOpenAPI: the document has every endpoint and no other. Of each that reads JSON it has the fields that are read
// there, and no others: a number out of all ranges in them is an error of that field, and in no other field.
func TestOpenAPI(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Predictors: servetest.TestPredictors(t), MaxSessions: 1 << 20})
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
	if len(fields) < 30 || len(names) < 80 {
		t.Errorf("found %d bodies with %d fields, want more", len(fields), len(names))
	}
	for _, pattern := range slices.Sorted(maps.Keys(fields)) {
		method, path, _ := strings.Cut(pattern, " ")
		checked := 0
		for name := range names {
			schema, there := fields[pattern][name]
			_, answer := servetest.Ask(t.Context(), s.Hippo, method, path, fmt.Sprintf(`{%q:1e999}`, name))
			reads := strings.Contains(answer, name+": ") && !strings.Contains(answer, "does not implement") &&
				strings.Contains(answer, "1e999")
			if data, _ := json.Marshal(schema); there && string(data) == "{}" { // it is read later, or anything
				continue
			}
			if checked++; reads != there {
				t.Errorf("%s: %s is read: %v, and described: %v: %s", pattern, name, reads, there, answer)
			}
		}
		if checked == 0 {
			t.Errorf("%s: no field is checked", pattern)
		}
	}
}
