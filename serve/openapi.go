package serve

import (
	"cmp"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/serve/anthropic"
	"github.com/hippo-ssm/hippo/serve/ollama"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/serve/rows"
)

// formsOf returns the form of each endpoint, by method and path.
func (s *Server) formsOf() map[string]request.Form {
	all := openai.Forms()
	for _, more := range []map[string]request.Form{
		anthropic.Forms(), ollama.Forms(), rows.Forms(), s.Sessions.Forms(), {"GET /slots": {Query: "fail_on_no_slot"}},
	} {
		maps.Copy(all, more)
	}
	for _, r := range s.endpoints() {
		if _, there := all[r.pattern]; !there {
			all[r.pattern] = request.Form{} // reads nothing
		}
	}
	return all
}

// openAPI responds with an OpenAPI 3.1 description of all endpoints (https://spec.openapis.org/oas/v3.1.1). It is
// generated from the routes and from the forms that limit what handlers can read.
func (s *Server) openAPI(c *request.Call) error {
	paths := map[string]map[string]any{}
	for _, r := range s.endpoints() {
		method, path := pathOf(r.pattern)
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][method] = s.operation(r)
	}
	return c.JSON(map[string]any{
		"openapi": "3.1.1",
		"info": map[string]any{
			"title": "hippo serve", "version": cmp.Or(s.o.Version, "unknown"),
			"description": "The endpoints of OpenAI, Anthropic, Ollama and evaluation harnesses, and hippo's own. " +
				"Fields of other servers that have an effect there and none here are refused by name.",
		},
		"paths": paths,
		"components": map[string]any{
			"securitySchemes": map[string]any{"key": map[string]any{"type": "http", "scheme": "bearer"}},
			"responses":       map[string]any{"error": errorResponse()},
		},
	})
}

// inPath matches the fields of a path, including the dots that net/http allows after their names.
var inPath = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`)

// pathOf returns the method and the path of a pattern.
func pathOf(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	return strings.ToLower(method), inPath.ReplaceAllString(strings.TrimSuffix(path, "{$}"), "{$1}")
}

// operation describes an endpoint.
func (s *Server) operation(r route) map[string]any {
	f := s.forms[r.pattern]
	method, path := pathOf(r.pattern)
	params := []any{}
	for _, name := range inPath.FindAllStringSubmatch(path, -1) {
		params = append(params, param("path", name[1]))
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(strings.Fields(f.Query)))) {
		params = append(params, param("query", name))
	}
	answer := map[string]any{"description": "the answer"}
	if f.Reply != nil {
		answer["content"] = map[string]any{"application/json": schemaOf(f.Reply)}
	}
	o := map[string]any{
		"operationId": strings.Trim(regexp.MustCompile(`\W+`).ReplaceAllString(method+path, "_"), "_"),
		"parameters":  params,
		"responses": map[string]any{
			"200": answer, "default": map[string]any{"$ref": "#/components/responses/error"},
		},
	}
	if r.scope != "" {
		o["security"] = []any{map[string]any{"key": []string{string(r.scope)}}}
	}
	switch {
	case f.Body != nil:
		o["requestBody"] = map[string]any{
			"required": true, "content": map[string]any{"application/json": schemaOf(f.Body)},
		}
	case f.Kind != "":
		o["requestBody"] = map[string]any{"required": true, "content": map[string]any{f.Kind: map[string]any{}}}
	}
	return o
}

func param(in, name string) map[string]any {
	return map[string]any{"in": in, "name": name, "required": in == "path", "schema": map[string]any{"type": "string"}}
}

func schemaOf(of any) map[string]any {
	return map[string]any{"schema": request.SchemaOf(reflect.TypeOf(of))}
}

// errorResponse describes an error response. Its form depends on the dialect.
func errorResponse() map[string]any {
	return map[string]any{
		"description": "an error, with the field that is wrong, what was found and what was wanted",
		"content": map[string]any{"application/json": map[string]any{"schema": request.Schema{
			"type": "object", "required": []string{"error"}, "properties": map[string]any{"error": map[string]any{}},
		}}},
	}
}
