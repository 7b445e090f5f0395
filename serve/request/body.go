package request

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Read reads the JSON object of a request into the fields of a struct, to which into points. Fields that it does not
// have are ignored, null leaves a field as it is, and the error of another names it.
func (c *Call) Read(into any) error {
	body, err := c.ReadAll()
	if err != nil {
		return err
	}
	return ReadObject(body, into)
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
		c.Header().Set("Connection", "close") // what may still come of the body is not waited for
		return nil, ErrBodyLate
	}
	// Reading in the background goes on, to find out when the client goes: without a deadline.
	http.NewResponseController(c.Writer).SetReadDeadline(time.Time{})
	return body, nil
}

// ManyBodies bounds the bodies of all requests together, in bodies of the largest size: a body is read before its
// request is admitted.
const ManyBodies = 8

// countedBody is a body whose bytes count among those of all requests.
type countedBody struct {
	io.Reader
	of *Call
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.of.body.Add(int64(n))
	if most := ManyBodies * b.of.Env.MaxBody; b.of.Env.bodies.Add(int64(n)) > most {
		return 0, Busy("the bodies of all requests have more than %d bytes", most)
	}
	return n, err
}

// ErrBodyLate is the error of a body that is truncated or too slow.
var ErrBodyLate = &Error{Status: http.StatusRequestTimeout, Message: "the body of the request did not arrive whole"}
