package anthropic

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Batches runs batches of messages (https://platform.claude.com/docs/en/api/creating-message-batches). The requests of
// a batch are stored as lines of a batch like OpenAI's, in a file that belongs to the batch.
type Batches struct {
	Store *batch.Store
	// Allowed returns an error if the key of a request may not run batches for an endpoint.
	Allowed func(c *request.Call, endpoint string) error
}

// endpoint is the endpoint of the requests of a batch.
const endpoint = "/v1/messages"

// batchRequest is the body of POST /v1/messages/batches.
type batchRequest struct {
	Requests []json.RawMessage `json:"requests"`
}

// Batch is Anthropic's description of a batch.
type Batch struct {
	ID        string      `json:"id"`
	Type      string      `json:"type"`
	Status    string      `json:"processing_status"`
	Counts    batchCounts `json:"request_counts"`
	Created   time.Time   `json:"created_at"`
	Expires   time.Time   `json:"expires_at"`
	Ended     *time.Time  `json:"ended_at"`
	Cancelled *time.Time  `json:"cancel_initiated_at"`
	Archived  *time.Time  `json:"archived_at"`
	Results   *string     `json:"results_url"`
}

// batchCounts are numbers of requests. All count as Processing until the batch ends.
type batchCounts struct {
	Processing int `json:"processing"`
	Succeeded  int `json:"succeeded"`
	Errored    int `json:"errored"`
	Canceled   int `json:"canceled"`
	Expired    int `json:"expired"`
}

// batchList is a page of a list.
type batchList struct {
	Data  []Batch `json:"data"`
	First *string `json:"first_id"`
	Last  *string `json:"last_id"`
	More  bool    `json:"has_more"`
}

// newBatch returns the description of a batch.
func newBatch(b batch.Batch) Batch {
	at := func(all ...batch.Status) *time.Time {
		for _, s := range all {
			if t, ok := b.At[s]; ok {
				t = t.UTC()
				return &t
			}
		}
		return nil
	}
	o := Batch{
		ID: b.ID, Type: "message_batch", Status: "in_progress", Created: b.Created.UTC(), Expires: b.Expires.UTC(),
		Cancelled: at(batch.Cancelling),
		Ended:     at(batch.Completed, batch.Cancelled, batch.Expired, batch.Failed),
	}
	left := b.Counts.Total - b.Counts.Completed - b.Counts.Failed
	switch {
	case o.Ended == nil:
		if o.Cancelled != nil {
			o.Status = "canceling"
		}
		o.Counts.Processing = b.Counts.Total
		return o
	case b.Status == batch.Cancelled:
		o.Counts.Canceled = left
	case b.Status == batch.Expired:
		o.Counts.Expired = left
	default:
		o.Counts.Errored = left
	}
	o.Counts.Succeeded = b.Counts.Completed
	o.Counts.Errored += b.Counts.Failed
	o.Status = "ended"
	// Clients resolve the path against the address of this server.
	results := endpoint + "/batches/" + b.ID + "/results"
	o.Results = &results
	return o
}

var customID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// line returns the line of a request for a batch. ids are the ids of the previous lines.
func line(raw json.RawMessage, ids map[string]bool) ([]byte, error) {
	var q struct {
		ID     string          `json:"custom_id"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, errors.New(request.DescribeJSON(err))
	}
	var params struct {
		Stream json.RawMessage `json:"stream"`
	}
	switch p := bytes.TrimSpace(q.Params); {
	case !customID.MatchString(q.ID):
		return nil, fmt.Errorf("custom_id: found %.80q, want 1 to 64 letters, digits, _ and -", q.ID)
	case ids[q.ID]:
		return nil, fmt.Errorf("custom_id: found %s for the second time, want another", q.ID)
	case len(p) == 0 || p[0] != '{':
		return nil, fmt.Errorf("params: found %s, want the fields of a message", request.Shorten(p))
	}
	if json.Unmarshal(q.Params, &params) == nil && string(params.Stream) == "true" {
		return nil, errors.New("params: stream: found true, want false: nobody reads a stream")
	}
	ids[q.ID] = true
	return json.Marshal(struct {
		ID     string          `json:"custom_id"`
		Method string          `json:"method"`
		URL    string          `json:"url"`
		Body   json.RawMessage `json:"body"`
	}{q.ID, http.MethodPost, endpoint, q.Params})
}

// Create responds to POST /v1/messages/batches.
func (s *Batches) Create(c *request.Call) error {
	var q batchRequest
	if err := read(c, &q); err != nil {
		return err
	}
	if err := s.Allowed(c, endpoint); err != nil {
		return err
	}
	if len(q.Requests) == 0 {
		return request.Invalid("requests", "found none, want at least one")
	}
	ids := map[string]bool{}
	b, err := s.Store.AddOwn(c.Key, endpoint, len(q.Requests), func(w io.Writer) error {
		for i, raw := range q.Requests {
			text, err := line(raw, ids)
			if err != nil {
				return request.Invalid("requests", "%d: %v", i, err)
			}
			if _, err := w.Write(append(text, '\n')); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.JSON(newBatch(b))
}

// List responds to GET /v1/messages/batches.
func (s *Batches) List(c *request.Call) error {
	const most = 1000
	p := batch.Page{After: c.Query("after_id"), Before: c.Query("before_id"), Limit: 20}
	var ch request.Checks
	ch.That(p.After == "" || p.Before == "", "before_id", "found it beside after_id, want one of the two")
	if text := c.Query("limit"); text != "" {
		n, err := strconv.Atoi(text)
		ch.That(err == nil && n >= 1 && n <= most, "limit", "found %.40q, want an integer from 1 to %d", text, most)
		p.Limit = n
	}
	if ch.Err != nil {
		return ch.Err
	}
	all, more, err := s.Store.Batches(c.Key, true, p)
	if err != nil {
		return err
	}
	list := batchList{Data: make([]Batch, len(all)), More: more}
	for i, b := range all {
		list.Data[i] = newBatch(b)
	}
	if n := len(all); n > 0 {
		list.First, list.Last = &list.Data[0].ID, &list.Data[n-1].ID
	}
	return c.JSON(list)
}

// Show responds to GET /v1/messages/batches/{id}.
func (s *Batches) Show(c *request.Call) error {
	b, err := s.Store.Batch(c.Key, c.Request.PathValue("id"), true)
	if err != nil {
		return err
	}
	return c.JSON(newBatch(b))
}

// Cancel responds to POST /v1/messages/batches/{id}/cancel.
func (s *Batches) Cancel(c *request.Call) error {
	b, err := s.Store.Cancel(c.Key, c.Request.PathValue("id"), true)
	if err != nil {
		return err
	}
	return c.JSON(newBatch(b))
}

// Delete responds to DELETE /v1/messages/batches/{id}.
func (s *Batches) Delete(c *request.Call) error {
	id := c.Request.PathValue("id")
	if err := s.Store.DeleteOwn(c.Key, id); err != nil {
		return err
	}
	return c.JSON(map[string]string{"id": id, "type": "message_batch_deleted"})
}

// result is the outcome of a request of a batch.
type result struct {
	Type    string          `json:"type"`
	Message json.RawMessage `json:"message,omitempty"`
	Error   any             `json:"error,omitempty"`
}

// resultOf returns a line of results for a line of the output of a batch.
func resultOf(c *request.Call, text []byte) ([]byte, error) {
	var l struct {
		ID       string `json:"custom_id"`
		Response *struct {
			Status int             `json:"status_code"`
			Body   json.RawMessage `json:"body"`
		} `json:"response"`
		Error struct{ Code, Message string } `json:"error"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, err
	}
	r := result{Type: "errored"}
	switch {
	case l.Response != nil && l.Response.Status == http.StatusOK:
		r.Type, r.Message = "succeeded", l.Response.Body
	case l.Response != nil:
		r.Error = l.Response.Body
	case l.Error.Code == batch.CodeExpired:
		r.Type = "expired"
	case l.Error.Code == batch.CodeCancelled:
		r.Type = "canceled"
	default:
		r.Error = newFailure(c, &request.Error{Status: http.StatusBadRequest, Message: l.Error.Message})
	}
	return json.Marshal(struct {
		ID     string `json:"custom_id"`
		Result result `json:"result"`
	}{l.ID, r})
}

// Results responds to GET /v1/messages/batches/{id}/results with a line for each request.
func (s *Batches) Results(c *request.Call) error {
	b, err := s.Store.Batch(c.Key, c.Request.PathValue("id"), true)
	if err != nil {
		return err
	}
	if newBatch(b).Results == nil {
		return &request.Error{
			Status: http.StatusConflict, Code: "in_use",
			Message: fmt.Sprintf("batch %s: found no results yet, want a batch that has ended", b.ID),
		}
	}
	c.Header().Set("Content-Type", "application/x-jsonl")
	for _, id := range []string{b.Output, b.Errors} {
		if id == "" {
			continue
		}
		_, file, err := s.Store.OpenFile(c.Key, id)
		if err != nil {
			return err
		}
		err = s.results(c, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return c.Deliver(nil)
}

// results sends the results from a batch's output file.
func (s *Batches) results(c *request.Call, file io.Reader) error {
	for in := bufio.NewReader(file); ; {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			text, err = resultOf(c, text)
		}
		if err != nil {
			return err
		}
		if err := c.Deliver(append(text, '\n')); err != nil {
			return &request.Error{Status: request.StatusGone, Message: fmt.Sprintf("the client does not read: %v", err)}
		}
	}
}
