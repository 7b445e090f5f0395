package clients

import (
	"io"
	"net/http"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
)

// TestOpenAPIDocument: /openapi.json is a valid document of OpenAPI 3.1, and has no reference to nothing.
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
	document, err := libopenapi.NewDocument(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := document.BuildV3Model(); err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, faults := v.ValidateDocument(); !ok {
		for _, fault := range faults {
			t.Errorf("%s: %s, %v", fault.Message, fault.Reason, fault.SchemaValidationErrors)
		}
	}
}
