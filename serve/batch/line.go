package batch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// lines reads the requests of a file.
type lines struct {
	r    *bufio.Reader
	most int // maximum bytes of a line
	n    int // number of the last line read, from 1
	from int64
	to   int64 // end of the last line in the file
	buf  []byte
}

func newLines(r io.Reader, most int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), most: most}
}

// errLong is the error of a line that is too long. Reading continues after it.
var errLong = errors.New("too long")

// next returns the next line that is not empty, valid until the next call. The last error is io.EOF.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil || len(bytes.TrimSpace(line)) > 0 {
			return line, err
		}
	}
}

// line returns the next line.
func (l *lines) line() ([]byte, error) {
	l.buf, l.from = l.buf[:0], l.to
	long, some := false, false
	for {
		part, err := l.r.ReadSlice('\n')
		l.to += int64(len(part))
		some = some || len(part) > 0
		if long = long || len(l.buf)+len(part) > l.most; !long {
			l.buf = append(l.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!some || !errors.Is(err, io.EOF)):
			return nil, err
		}
		if l.n++; long {
			return nil, errLong
		}
		return l.buf, nil
	}
}

// item is a line of a file: a request, or its error.
type item struct {
	line     int
	CustomID *string
	endpoint string
	body     []byte
	problem  string
	text     *plainText // set for a line of an offline file whose answer becomes its score
	sum      string     // hash of the content of such a line
}

// maxCustomID is the maximum length of a custom_id in bytes.
const maxCustomID = 512

// items reads the items of a file, one after another.
type items struct {
	*lines
	endpoints []string
	seen      map[[16]byte]bool // hashes of the custom_ids so far
	offline   *Offline          // the offline run, or nil for a client's file
}

// next returns the next item. The last error is io.EOF.
func (r *items) next() (item, error) {
	text, err := r.lines.next()
	it := item{line: r.n}
	if errors.Is(err, errLong) {
		it.problem = fmt.Sprintf("found a line of more than %d bytes", r.most)
		err = nil
	} else if err == nil {
		it.problem = r.parse(text, &it)
	}
	if r.offline != nil {
		it.sum = r.offline.sum(text)
	}
	return it, err
}

// parse parses a line. It returns a description of an error, or "".
func (r *items) parse(text []byte, it *item) string {
	var q struct {
		CustomID json.RawMessage `json:"custom_id"`
		Method   json.RawMessage `json:"method"`
		URL      json.RawMessage `json:"url"`
		Body     json.RawMessage `json:"body"`
	}
	if !utf8.Valid(text) {
		return "found a line that is no UTF-8"
	}
	if err := json.Unmarshal(text, &q); err != nil {
		return "want a JSON object: " + err.Error()
	}
	var id, method, url string
	if len(q.CustomID) > 0 || r.offline == nil {
		if json.Unmarshal(q.CustomID, &id) != nil || id == "" || len(id) > maxCustomID {
			return fmt.Sprintf("custom_id: found %.60s, want a string of 1 to %d bytes", some(q.CustomID), maxCustomID)
		}
		it.CustomID = &id
	}
	if r.offline != nil {
		if len(q.URL) == 0 {
			return r.plain(text, it)
		}
	} else {
		hash := sha256.Sum256([]byte(id))
		key := [16]byte(hash[:])
		if r.seen[key] {
			return "custom_id: found it for the second time"
		}
		r.seen[key] = true
	}
	if json.Unmarshal(q.Method, &method) != nil || method != "POST" {
		return fmt.Sprintf("method: found %.60s, want POST", some(q.Method))
	}
	if json.Unmarshal(q.URL, &url) != nil || !slices.Contains(r.endpoints, url) {
		if r.offline == nil {
			return fmt.Sprintf("url: found %.60s, want that of the batch, %s", some(q.URL), r.endpoints[0])
		}
		return fmt.Sprintf("url: found %.60s, want one of %s", some(q.URL), strings.Join(r.endpoints, ", "))
	}
	return it.request(url, bytes.Clone(q.Body))
}

// request turns an item into a request, or returns a description of an error in its body.
func (it *item) request(endpoint string, text []byte) string {
	var body struct {
		Stream json.RawMessage `json:"stream"`
	}
	if len(text) == 0 || text[0] != '{' || json.Unmarshal(text, &body) != nil {
		return fmt.Sprintf("body: found %.60s, want an object", some(text))
	}
	if string(body.Stream) == "true" {
		return "body.stream: found true, want false: nobody reads a stream"
	}
	it.endpoint, it.body = endpoint, text
	return ""
}

// some returns a value as text for a message.
func some(v json.RawMessage) string {
	if len(v) == 0 {
		return "nothing"
	}
	return string(v)
}
