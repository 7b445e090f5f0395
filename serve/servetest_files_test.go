package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/hippo-ssm/hippo/serve/batch"
)

// upload sends a file.
func (s *site) upload(fields map[string]string, text string) (int, []byte) {
	s.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "../requests.jsonl")
	if err == nil {
		_, err = io.WriteString(file, text)
	}
	for name, value := range fields {
		if err == nil {
			err = form.WriteField(name, value)
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	form.Close()
	status, _, data := s.send(http.MethodPost, "/v1/files", form.FormDataContentType(), &body)
	return status, data
}

// sent is the id of a file with some text.
func (s *site) sent(text string) string {
	s.t.Helper()
	status, data := s.upload(map[string]string{"purpose": "batch"}, text)
	if status != http.StatusOK {
		s.t.Fatalf("status %d: %s", status, data)
	}
	return decode[fileObject](s.t, data).ID
}

// batched has a batch done.
func (s *site) batched(endpoint, text string) batchObject {
	s.t.Helper()
	b := post[batchObject](s, "/v1/batches", fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h","metadata":{"k":"v"}}`, s.sent(text), endpoint))
	if b.Object != "batch" || b.Status != batch.Validating && b.Status != batch.InProgress {
		s.t.Fatalf("got %+v", b)
	}
	for b.Completed == nil && b.Failed == nil && b.Cancelled == nil {
		time.Sleep(time.Millisecond)
		_, _, data := s.do(http.MethodGet, "/v1/batches/"+b.ID, "")
		b = decode[batchObject](s.t, data)
	}
	return b
}

// batchAnswer is a line of an output.
type batchAnswer struct {
	CustomID string `json:"custom_id"`
	Response *struct {
		Status    int    `json:"status_code"`
		RequestID string `json:"request_id"`
		Body      json.RawMessage
	}
	Error *struct{ Code, Message string }
}

func (s *site) output(id *string) (all []batchAnswer) {
	s.t.Helper()
	if id == nil {
		return nil
	}
	status, h, data := s.do(http.MethodGet, "/v1/files/"+*id+"/content", "")
	if status != http.StatusOK || h.Get("Content-Disposition") != "attachment" {
		s.t.Fatalf("status %d: %s", status, data)
	}
	for line := range bytes.Lines(data) {
		all = append(all, decode[batchAnswer](s.t, line))
	}
	return all
}
