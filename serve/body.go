package serve

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// read reads the JSON object of a request into the fields of a struct, to which into points. Fields that it does not
// have are ignored, null leaves a field as it is, and the error of another names it.
func (c *call) read(into any) error {
	body, err := c.readAll()
	if err != nil {
		return err
	}
	return readObject(body, into)
}

// readAll reads the body of a request.
func (c *call) readAll() ([]byte, error) {
	body, err := io.ReadAll(&countedBody{http.MaxBytesReader(c.w, c.r.Body, c.shared.MaxBody), c})
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
		return nil, errBodyLate
	}
	// Reading in the background goes on, to find out when the client goes: without a deadline.
	http.NewResponseController(c.w).SetReadDeadline(time.Time{})
	return body, nil
}

// manyBodies is how many bodies of the largest size all requests may have together: they are read before it is known
// whether the request may run.
const manyBodies = 8

// countedBody is a body whose bytes count among those of all requests.
type countedBody struct {
	io.Reader
	of *call
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.of.body.Add(int64(n))
	if most := manyBodies * b.of.shared.MaxBody; b.of.shared.bodies.Add(int64(n)) > most {
		return 0, busy("the bodies of all requests have more than %d bytes", most)
	}
	return n, err
}

// errBodyLate is the error of a body that ends early, or comes too slowly.
var errBodyLate = &Error{Status: http.StatusRequestTimeout, Message: "the body of the request did not arrive whole"}
