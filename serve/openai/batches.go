package openai

import (
	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/request"
)

// batchRequest is the body of POST /v1/batches.
type batchRequest struct {
	Input    string            `json:"input_file_id"`
	Endpoint string            `json:"endpoint"`
	Window   string            `json:"completion_window"`
	Metadata map[string]string `json:"metadata"`
}

// Batch is OpenAI's description of a batch.
type Batch struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	Endpoint   string            `json:"endpoint"`
	Errors     *batchErrors      `json:"errors"`
	Input      string            `json:"input_file_id"`
	Window     string            `json:"completion_window"`
	Status     batch.Status      `json:"status"`
	Output     *string           `json:"output_file_id"`
	ErrorFile  *string           `json:"error_file_id"`
	Created    int64             `json:"created_at"`
	InProgress *int64            `json:"in_progress_at"`
	Expires    int64             `json:"expires_at"`
	Finalizing *int64            `json:"finalizing_at"`
	Completed  *int64            `json:"completed_at"`
	Failed     *int64            `json:"failed_at"`
	Expired    *int64            `json:"expired_at"`
	Cancelling *int64            `json:"cancelling_at"`
	Cancelled  *int64            `json:"cancelled_at"`
	Counts     batch.Counts      `json:"request_counts"`
	Metadata   map[string]string `json:"metadata"`
}

type batchErrors struct {
	Object string          `json:"object"`
	Data   []batch.Problem `json:"data"`
}

func newBatchObject(b batch.Batch) Batch {
	at := func(s batch.Status) *int64 {
		if t, ok := b.At[s]; ok {
			seconds := t.Unix()
			return &seconds
		}
		return nil
	}
	o := Batch{
		ID: b.ID, Object: "batch", Endpoint: b.Endpoint, Input: b.Input, Window: b.Window, Status: b.Status,
		Output: request.OrNull(b.Output), ErrorFile: request.OrNull(b.Errors), Created: b.Created.Unix(),
		Expires:    b.Expires.Unix(),
		InProgress: at(batch.InProgress), Finalizing: at(batch.Finalizing), Completed: at(batch.Completed),
		Failed: at(batch.Failed), Expired: at(batch.Expired), Cancelling: at(batch.Cancelling),
		Cancelled: at(batch.Cancelled), Counts: b.Counts, Metadata: b.Metadata,
	}
	if len(b.Problems) > 0 {
		o.Errors = &batchErrors{"list", b.Problems}
	}
	return o
}

// CreateBatch responds to POST /v1/batches.
func (s *Files) CreateBatch(c *request.Call) error {
	var q batchRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if err := s.Allowed(c, q.Endpoint); err != nil {
		return err
	}
	b, err := s.Store.AddBatch(c.Key, batch.Wish(q))
	return respond(c, b, err, newBatchObject)
}

// ListBatches responds to GET /v1/batches.
func (s *Files) ListBatches(c *request.Call) error {
	p, err := pageOf(c, 20, 100)
	if err != nil {
		return err
	}
	batches, more, err := s.Store.Batches(c.Key, false, p)
	if err != nil {
		return err
	}
	data := make([]Batch, len(batches))
	for i, b := range batches {
		data[i] = newBatchObject(b)
	}
	return c.JSON(newList(data, func(b *Batch) *string { return &b.ID }, more))
}

// ShowBatch responds to GET /v1/batches/{id}.
func (s *Files) ShowBatch(c *request.Call) error {
	b, err := s.Store.Batch(c.Key, c.Request.PathValue("id"), false)
	return respond(c, b, err, newBatchObject)
}

// CancelBatch responds to POST /v1/batches/{id}/cancel.
func (s *Files) CancelBatch(c *request.Call) error {
	b, err := s.Store.Cancel(c.Key, c.Request.PathValue("id"), false)
	return respond(c, b, err, newBatchObject)
}
