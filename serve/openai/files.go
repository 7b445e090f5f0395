package openai

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Files stores files of clients and runs their batches.
type Files struct {
	Store       *batch.Store
	ReadTimeout time.Duration // maximum time for a part of a file to arrive
	// Allowed returns an error if the key of a request may not run batches for an endpoint.
	Allowed func(c *request.Call, endpoint string) error
}

// File is OpenAI's description of a file.
type File struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Bytes   int64  `json:"bytes"`
	Created int64  `json:"created_at"`
	Name    string `json:"filename"`
	Purpose string `json:"purpose"`
	Status  string `json:"status"`
}

func newFileObject(f batch.File) File {
	return File{f.ID, "file", f.Bytes, f.Created.Unix(), f.Name, f.Purpose, "processed"}
}

// listObject is a page of a list.
type listObject[T any] struct {
	Object  string  `json:"object"`
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// newList returns a page of a list. id returns the id of an element.
func newList[T any](data []T, id func(*T) *string, more bool) listObject[T] {
	list := listObject[T]{Object: "list", Data: data, HasMore: more}
	if n := len(data); n > 0 {
		list.FirstID, list.LastID = id(&data[0]), id(&data[n-1])
	}
	return list
}

// respond responds with a value as its API object, or returns the error of its store.
func respond[T, O any](c *request.Call, v T, err error, object func(T) O) error {
	if err != nil {
		return err
	}
	return c.JSON(object(v))
}

// pageOf parses the page of a list that a request asks for.
func pageOf(c *request.Call, limit, most int) (batch.Page, error) {
	q := c.Queries()
	p := batch.Page{After: q.Get("after"), Limit: limit, Ascending: q.Get("order") == "asc"}
	var ch request.Checks
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		ch.That(err == nil && n >= 1 && n <= most, "limit", "found %.40q, want an integer from 1 to %d", text, most)
		p.Limit = n
	}
	order := q.Get("order")
	ch.That(order == "" || order == "asc" || order == "desc", "order", "found %.40q, want asc or desc", order)
	return p, ch.Err
}

// Upload responds to POST /v1/files. The file is written as it arrives.
func (s *Files) Upload(c *request.Call) error {
	const forms = 1 << 20 // for the form around the file
	control := http.NewResponseController(c.Writer)
	c.Request.Body = http.MaxBytesReader(c.Writer, &steady{c.Request.Body, control, s.ReadTimeout, 0},
		s.Store.MaxFile()+forms)
	parts, err := c.Request.MultipartReader()
	if err != nil {
		return &request.Error{
			Status:  http.StatusBadRequest,
			Message: fmt.Sprintf("the body of the request: %v; want a form with purpose and file", err),
		}
	}
	f, err := s.Store.AddFile(c.Key, func(w io.Writer) (string, error) { return readForm(parts, w) })
	if err != nil {
		c.Header().Set("Connection", "close") // do not wait for the rest of the body
		return err
	}
	control.SetReadDeadline(time.Time{})
	c.Note("bytes", f.Bytes)
	return c.JSON(newFileObject(f))
}

// readForm writes the file of a form, and returns its name.
func readForm(parts *multipart.Reader, w io.Writer) (name string, err error) {
	const most = 64 // bytes of a purpose
	var purpose, file bool
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", brokenForm(err)
		}
		switch part.FormName() {
		case "purpose":
			text, err := io.ReadAll(io.LimitReader(part, most))
			if err != nil {
				return "", brokenForm(err)
			}
			if string(text) != batch.PurposeBatch {
				return "", request.Invalid("purpose", "found %q, want %s", text, batch.PurposeBatch)
			}
			purpose = true
		case "file":
			if file {
				return "", request.Invalid("file", "found two, want one")
			}
			file, name = true, part.FileName()
			if _, err := io.Copy(w, formReader{part}); err != nil {
				return "", err
			}
		}
	}
	switch {
	case !file:
		return "", request.Invalid("file", "found nothing, want a file")
	case !purpose:
		return "", request.Invalid("purpose", "found nothing, want %s", batch.PurposeBatch)
	}
	return name, nil
}

// formReader marks errors as the client's.
type formReader struct{ *multipart.Part }

func (r formReader) Read(p []byte) (int, error) {
	n, err := r.Part.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = brokenForm(err)
	}
	return n, err
}

// brokenForm returns the error of a truncated or too large form.
func brokenForm(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &request.Error{
			Status: http.StatusRequestEntityTooLarge, Code: "request_too_large",
			Message: fmt.Sprintf("the body of the request has more than %d bytes", large.Limit),
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) {
		return request.ErrBodyLate
	}
	return &request.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("the body of the request: %v", err)}
}

// steady reads a body that may take long but must arrive steadily: each part within the time limit of a normal body.
type steady struct {
	io.ReadCloser
	control *http.ResponseController
	wait    time.Duration
	n       int // bytes since the deadline was set
}

func (r *steady) Read(p []byte) (int, error) {
	const part = 1 << 20
	n, err := r.ReadCloser.Read(p)
	if r.n += n; r.n >= part {
		r.n = 0
		// A recorder in tests has no deadlines and no slow client.
		r.control.SetReadDeadline(time.Now().Add(r.wait))
	}
	return n, err
}

// List responds to GET /v1/files.
func (s *Files) List(c *request.Call) error {
	const most = 10000
	p, err := pageOf(c, most, most)
	if err != nil {
		return err
	}
	files, more, err := s.Store.Files(c.Key, c.Query("purpose"), p)
	if err != nil {
		return err
	}
	data := make([]File, len(files))
	for i, f := range files {
		data[i] = newFileObject(f)
	}
	return c.JSON(newList(data, func(f *File) *string { return &f.ID }, more))
}

// Show responds to GET /v1/files/{id}.
func (s *Files) Show(c *request.Call) error {
	f, err := s.Store.File(c.Key, c.Request.PathValue("id"))
	return respond(c, f, err, newFileObject)
}

// Content responds to GET /v1/files/{id}/content.
func (s *Files) Content(c *request.Call) error {
	f, r, err := s.Store.OpenFile(c.Key, c.Request.PathValue("id"))
	if err != nil {
		return err
	}
	defer r.Close() // the file was only read
	h := c.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Length", strconv.FormatInt(f.Bytes, 10))
	buf := make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if err := c.Deliver(buf[:n]); err != nil {
				return &request.Error{Status: request.StatusGone,
					Message: fmt.Sprintf("the client does not read: %v", err)}
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// Delete responds to DELETE /v1/files/{id}.
func (s *Files) Delete(c *request.Call) error {
	id := c.Request.PathValue("id")
	if err := s.Store.DeleteFile(c.Key, id); err != nil {
		return err
	}
	return c.JSON(struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{id, "file", true})
}
