package servetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/openai"
)

// Upload uploads a file and returns the status and body of the answer.
func (s *Site) Upload(fields map[string]string, text string) (int, []byte) {
	s.T.Helper()
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
		s.T.Fatal(err)
	}
	form.Close()
	status, _, data := s.Send(http.MethodPost, "/v1/files", form.FormDataContentType(), &body)
	return status, data
}

// Sent uploads a file with the given text and returns its id.
func (s *Site) Sent(text string) string {
	s.T.Helper()
	status, data := s.Upload(map[string]string{"purpose": "batch"}, text)
	if status != http.StatusOK {
		s.T.Fatalf("status %d: %s", status, data)
	}
	return Decode[openai.File](s.T, data).ID
}

// Batched runs a batch and returns it when it is completed, failed or cancelled.
func (s *Site) Batched(endpoint, text string) openai.Batch {
	s.T.Helper()
	b := Post[openai.Batch](s, "/v1/batches", fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h","metadata":{"k":"v"}}`, s.Sent(text), endpoint))
	if b.Object != "batch" || b.Status != batch.Validating && b.Status != batch.InProgress {
		s.T.Fatalf("got %+v", b)
	}
	for b.Completed == nil && b.Failed == nil && b.Cancelled == nil {
		time.Sleep(time.Millisecond)
		_, _, data := s.Do(http.MethodGet, "/v1/batches/"+b.ID, "")
		b = Decode[openai.Batch](s.T, data)
	}
	return b
}

// batchAnswer is a line of a batch's output.
type batchAnswer struct {
	CustomID string `json:"custom_id"`
	Response *struct {
		Status    int    `json:"status_code"`
		RequestID string `json:"request_id"`
		Body      json.RawMessage
	}
	Error *struct{ Code, Message string }
}

func (s *Site) Output(id *string) (all []batchAnswer) {
	s.T.Helper()
	if id == nil {
		return nil
	}
	status, h, data := s.Do(http.MethodGet, "/v1/files/"+*id+"/content", "")
	if status != http.StatusOK || h.Get("Content-Disposition") != "attachment" {
		s.T.Fatalf("status %d: %s", status, data)
	}
	for line := range bytes.Lines(data) {
		all = append(all, Decode[batchAnswer](s.T, line))
	}
	return all
}
