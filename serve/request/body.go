package request

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"
)

// Read reads the JSON object of a request into the struct to which into points. Unknown fields are ignored, and null
// leaves a field unchanged. An error names its field.
func (c *Call) Read(into any) error {
	if c.Form != nil && reflect.TypeOf(into).Elem() != reflect.TypeOf(c.Form.Body) {
		return fmt.Errorf("%s reads %T, want %T, which it declares", c.Route, into, c.Form.Body)
	}
	body, err := c.ReadAll()
	if err != nil {
		return err
	}
	if err := ReadObject(body, into); err != nil {
		return err
	}
	if q, ok := into.(interface{ rank() int }); ok {
		c.Share.Rank = q.rank()
	}
	if q, ok := into.(interface{ salt() *string }); ok {
		return c.separate(q.salt())
	}
	return nil
}

// ReadAll reads the body of a request.
func (c *Call) ReadAll() ([]byte, error) {
	body, err := io.ReadAll(&countedBody{http.MaxBytesReader(c.Writer, c.Request.Body, c.Env.MaxBody), c})
	var tooLarge *http.MaxBytesError
	var busy *Error
	switch {
	case errors.As(err, &busy):
		return nil, busy
	case errors.As(err, &tooLarge):
		return nil, &Error{
			Status: http.StatusRequestEntityTooLarge, Code: "request_too_large",
			Message: "the body of the request is larger than this server allows",
		}
	case err != nil:
		c.Header().Set("Connection", "close") // do not wait for the rest of the body
		return nil, ErrBodyLate
	}
	// The server keeps reading in the background to notice a disconnect. That read must have no deadline.
	http.NewResponseController(c.Writer).SetReadDeadline(time.Time{})
	return body, nil
}

// NewBodies returns places for the bytes of all request bodies. maxBody is the maximum size of one.
func NewBodies(maxBody int64) *Places { return NewPlaces(ManyBodies * maxBody) }

// ManyBodies limits the total size of the bodies of all requests, in units of the maximum size of one. The limit is
// needed since a body is read before its request is admitted.
const ManyBodies = 8

// countedBody is a body that counts towards the limit of all requests.
type countedBody struct {
	io.Reader
	of *Call
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n == 0 {
		return n, err
	}
	if e := b.of.Env.AllBodies.add(b.of.Share, int64(n), "bytes of bodies of requests are in memory"); e != nil {
		return 0, e
	}
	b.of.body += int64(n)
	return n, err
}

// ErrBodyLate is the error of a body that is truncated or too slow.
var ErrBodyLate = &Error{Status: http.StatusRequestTimeout, Message: "the body of the request did not arrive whole"}
