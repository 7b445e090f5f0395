package clients

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi/datamodel"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestOpenAPIDocument checks that /openapi.json is valid OpenAPI 3.1, and that its schemas are valid JSON schemas.
func TestOpenAPIDocument(t *testing.T) {
	address, _ := newServer(t, true)
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/openapi.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	form, err := jsonschema.UnmarshalJSON(strings.NewReader(datamodel.OpenAPI31SchemaData))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", form); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(document); err != nil {
		t.Error(err)
	}
	// That does not check the schemas inside, and references.
	schemas := schemasIn(document, "")
	if len(schemas) < 60 {
		t.Errorf("found %d schemas, want more", len(schemas))
	}
	if err := c.AddResource("document.json", document); err != nil {
		t.Fatal(err)
	}
	for _, at := range schemas {
		if _, err := c.Compile("document.json#" + at); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// schemasIn returns the places of the schemas and references in a part of a document.
func schemasIn(part any, at string) (all []string) {
	switch x := part.(type) {
	case map[string]any:
		for key, v := range x {
			place := at + "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(key)
			if key == "schema" {
				all = append(all, place)
			} else {
				all = append(all, schemasIn(v, place)...)
			}
		}
	case []any:
		for i, v := range x {
			all = append(all, schemasIn(v, at+"/"+strconv.Itoa(i))...)
		}
	}
	return all
}
