package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// readBody reads the JSON object of a request into the fields of a struct, to which into points. Fields that it does
// not have are ignored, null leaves a field as it is, and the error of another names it.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := s.readAll(w, r)
	if err != nil {
		return err
	}
	return readObject(body, into)
}

// readAll reads the body of a request.
func (s *Server) readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(&weighed{http.MaxBytesReader(w, r.Body, s.o.MaxBody), s.weigh(r.Context())})
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
		w.Header().Set("Connection", "close") // what may still come of the body is not waited for
		return nil, errBodyLate
	}
	// Reading in the background goes on, to find out when the client goes: without a deadline.
	http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// errBodyLate is the error of a body that ends early, or comes too slowly.
var errBodyLate = &Error{Status: http.StatusRequestTimeout, Message: "the body of the request did not arrive whole"}

// readObject reads a JSON object.
func readObject(body []byte, into any) error {
	if n := items(body); n > maxFields {
		return &Error{Status: http.StatusBadRequest,
			Message: fmt.Sprintf("the body of the request: found %d fields, want at most %d", n, maxFields)}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return &Error{Status: http.StatusBadRequest, Message: "the body of the request: " + describe(err)}
	}
	return readFields(fields, reflect.ValueOf(into).Elem())
}

// readFields sets the fields of a struct, those of embedded ones too.
func readFields(fields map[string]json.RawMessage, v reflect.Value) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			if err := readFields(fields, v.Field(i)); err != nil {
				return err
			}
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		raw, ok := fields[name]
		if !ok || string(raw) == "null" {
			continue
		}
		if err := checkItems(name, raw, v.Field(i).Type()); err != nil {
			return err
		}
		if err := json.Unmarshal(raw, v.Field(i).Addr().Interface()); err != nil {
			return wrong(name, "%s", describe(err))
		}
	}
	return nil
}

// describe is an error of encoding/json in the words of JSON.
func describe(err error) string {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err.Error()
	}
	want := kind.Type.String()
	for kind.Type.Kind() == reflect.Pointer {
		kind.Type = kind.Type.Elem()
	}
	switch kind.Type.Kind() {
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		want = "an integer"
	case reflect.Float32, reflect.Float64:
		want = "a number"
	case reflect.Slice:
		want = "a list"
	case reflect.Map, reflect.Struct:
		want = "an object"
	}
	text := "found a JSON " + shorten([]byte(kind.Value)) + ", want " + want
	if kind.Field != "" {
		return kind.Field + ": " + text
	}
	return text
}

// texts is a string or a list of strings.
type texts []string

func (t *texts) UnmarshalJSON(data []byte) error {
	if isText(data) {
		*t = texts{""}
		return json.Unmarshal(data, &(*t)[0])
	}
	return unmarshalList(data, (*[]string)(t), "a string or a list of strings")
}

// prompts are texts or lists of ids: one, or a list of them.
type prompts []prompt

// prompt is a text, or ids where there is no text.
type prompt struct {
	text string
	ids  []int32
}

const promptForms = "a string, a list of strings, a list of token ids, or a list of lists of token ids"

func (p *prompts) UnmarshalJSON(data []byte) error {
	*p = nil
	if isText(data) {
		*p = prompts{{}}
		return json.Unmarshal(data, &(*p)[0].text)
	}
	if first := firstOf(data); first != '"' && first != '[' && first != ']' { // ids, or nothing of use
		*p = prompts{{}}
		return readIDs(data, &(*p)[0].ids, promptForms)
	}
	if n := items(data); n > maxItems {
		return fmt.Errorf("found a list of %d, want at most %d", n, maxItems)
	}
	var items []json.RawMessage
	if err := unmarshalList(data, &items, promptForms); err != nil {
		return err
	}
	for _, item := range items {
		one := prompt{}
		var err error
		if isText(item) {
			err = json.Unmarshal(item, &one.text)
		} else {
			one.ids = []int32{}
			err = readIDs(item, &one.ids, promptForms)
		}
		if err != nil {
			return err
		}
		*p = append(*p, one)
	}
	return nil
}

func isText(data []byte) bool { return bytes.HasPrefix(data, []byte{'"'}) }

// readIDs reads a list of ids, or says what was wanted. A prompt of ids may be long: what has digits, commas and spaces
// alone, as clients write it, is read in one pass.
func readIDs(data []byte, to *[]int32, want string) error {
	ids := make([]int32, 0, bytes.Count(data, []byte{','})+1)
	for rest := data; bytes.HasPrefix(data, []byte{'['}) && len(rest) > 0; {
		rest = bytes.TrimLeft(rest[1:], " ") // behind a bracket or a comma
		id, n := int32(0), 0
		for ; n < len(rest) && rest[n] >= '0' && rest[n] <= '9'; n++ {
			if n == 9 || n == 1 && id == 0 { // too many digits to be sure that it is one, or none of JSON
				return unmarshalList(data, to, want)
			}
			id = 10*id + int32(rest[n]-'0')
		}
		rest = bytes.TrimLeft(rest[n:], " ")
		if ids = append(ids, id); n == 0 || len(rest) == 0 || rest[0] != ',' && string(rest) != "]" {
			break
		}
		if rest[0] == ']' {
			*to = ids
			return nil
		}
	}
	return unmarshalList(data, to, want)
}

// unmarshalList reads a list, or says what was wanted.
func unmarshalList[T any](data []byte, to *[]T, want string) error {
	if json.Unmarshal(data, to) != nil {
		return errors.New("found " + shorten(data) + ", want " + want)
	}
	return nil
}

// shorten is the beginning of a value, for an error.
func shorten(data []byte) string {
	const most = 40
	if len(data) > most {
		return string(data[:most]) + "…"
	}
	return string(data)
}

// checks collects what is wrong with the values of fields: the first that is.
type checks struct{ err error }

// that notes a field whose value is not as wanted.
func (c *checks) that(ok bool, param, format string, args ...any) {
	if !ok && c.err == nil {
		c.err = wrong(param, format, args...)
	}
}

// or is the value of a field, or another where the request does not have it.
func or[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

// orNull is a text of an answer, null where there is none.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
