package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
)

// TestOpenAIEmbeddings checks that embeddings have length 1, and that errors name their field.
func TestOpenAIEmbeddings(t *testing.T) {
	c := newClient(t)
	q := openai.EmbeddingNewParams{
		Model: "tiny", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"Call me", "海は広い"}},
	}
	a, err := c.Embeddings.New(t.Context(), q)
	if err != nil || len(a.Data) != 2 || a.Data[1].Index != 1 || a.Usage.TotalTokens != 19 || a.Model != "tiny" {
		t.Fatalf("got %+v, %v", a, err)
	}
	for _, e := range a.Data {
		length := 0.0
		for _, x := range e.Embedding {
			length += x * x
		}
		if math.Abs(length-1) > 1e-5 {
			t.Errorf("the square of the length is %v", length)
		}
	}
	q.Dimensions = openai.Int(1000)
	var wrong *openai.Error
	if _, err := c.Embeddings.New(t.Context(), q); !errors.As(err, &wrong) || wrong.Param != "dimensions" {
		t.Errorf("got %v", err)
	}
}

// TestOpenAIBatches checks that a file is uploaded, listed, described and read; that a batch of it ends, and its output
// has the answers; that both lists have pages; and that files can be deleted.
func TestOpenAIBatches(t *testing.T) {
	c := newClient(t)
	var text strings.Builder
	for i := range 7 {
		fmt.Fprintf(&text, `{"custom_id":"q%d","method":"POST","url":"/v1/embeddings","body":{"input":"%d"}}`+"\n", i, i)
	}
	text.WriteString("rubbish\n")
	f, err := c.Files.New(t.Context(), openai.FileNewParams{
		File:    openai.File(strings.NewReader(text.String()), "requests.jsonl", "application/jsonl"),
		Purpose: openai.FilePurposeBatch,
	})
	if err != nil || f.Filename != "requests.jsonl" || f.Bytes != int64(text.Len()) || f.Purpose != "batch" {
		t.Fatalf("got %+v, %v", f, err)
	}
	if again, err := c.Files.Get(t.Context(), f.ID); err != nil || again.ID != f.ID || again.CreatedAt != f.CreatedAt {
		t.Errorf("got %+v, %v", again, err)
	}
	b, err := c.Batches.New(t.Context(), openai.BatchNewParams{
		InputFileID: f.ID, Endpoint: openai.BatchNewParamsEndpointV1Embeddings,
		CompletionWindow: openai.BatchNewParamsCompletionWindow24h, Metadata: map[string]string{"of": "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 10000 {
		if b, err = c.Batches.Get(t.Context(), b.ID); err != nil {
			t.Fatal(err)
		}
		if b.Status == openai.BatchStatusCompleted {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if b.RequestCounts.Total != 8 || b.RequestCounts.Completed != 7 || b.RequestCounts.Failed != 1 ||
		b.Metadata["of"] != "test" || b.CompletedAt == 0 || b.Endpoint != "/v1/embeddings" {
		t.Fatalf("got %s", b.RawJSON())
	}
	content := func(id string) string {
		a, err := c.Files.Content(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		data, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	n := 0
	for line := range strings.Lines(content(b.OutputFileID)) {
		var a struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Body openai.CreateEmbeddingResponse
			}
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil || a.CustomID != fmt.Sprintf("q%d", n) ||
			len(a.Response.Body.Data) != 1 {
			t.Errorf("found %s (%v)", line, err)
		}
		n++
	}
	if n != 7 || !strings.Contains(content(b.ErrorFileID), "invalid_line") || content(f.ID) != text.String() {
		t.Errorf("%d answers, errors %s", n, content(b.ErrorFileID))
	}
	var ids []string
	for files := c.Files.ListAutoPaging(t.Context(), openai.FileListParams{Limit: openai.Int(1)}); files.Next(); {
		ids = append(ids, files.Current().ID)
	}
	batches := c.Batches.ListAutoPaging(t.Context(), openai.BatchListParams{Limit: openai.Int(1)})
	if len(ids) != 3 || !batches.Next() || batches.Current().ID != b.ID || batches.Next() || batches.Err() != nil {
		t.Errorf("the lists have %v, and %v", ids, batches.Err())
	}
	if ended, err := c.Batches.Cancel(t.Context(), b.ID); err != nil || ended.Status != openai.BatchStatusCompleted {
		t.Errorf("got %+v, %v", ended, err)
	}
	for _, id := range ids {
		if gone, err := c.Files.Delete(t.Context(), id); err != nil || !gone.Deleted {
			t.Errorf("got %+v, %v", gone, err)
		}
	}
	var wrong *openai.Error
	if _, err := c.Files.Get(t.Context(), f.ID); !errors.As(err, &wrong) || wrong.StatusCode != http.StatusNotFound {
		t.Errorf("got %v", err)
	}
}
