package cloud

import (
	"crypto/md5"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/session/bucket"
)

// fakeS3 answers the four S3 requests that a bucket sends: PUT, GET and DELETE of an object, and ListObjectsV2, with
// two names per page.
type fakeS3 struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func (f *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/marks"), "/")
	data, ok := f.objects[name]
	tag := fmt.Sprintf(`"%x"`, md5.Sum(data))
	switch {
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.objects[name] = unchunked(r, body)
		w.Header().Set("ETag", tag)
	case r.Method == http.MethodDelete:
		delete(f.objects, name)
		w.WriteHeader(http.StatusNoContent)
	case name == "":
		f.list(w, r.URL.Query().Get("prefix"), r.URL.Query().Get("continuation-token"))
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
	default:
		w.Header().Set("ETag", tag)
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		if r.Method == http.MethodGet {
			w.Write(data)
		}
	}
}

// unchunked returns a body without the framing of aws-chunked: the length of each chunk and, at the end, a checksum.
func unchunked(r *http.Request, body []byte) (out []byte) {
	if !strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
		return body
	}
	for rest := string(body); ; {
		line, after, _ := strings.Cut(rest, "\r\n")
		n := 0
		if _, err := fmt.Sscanf(line, "%x", &n); err != nil || n == 0 {
			return out
		}
		out, rest = append(out, after[:n]...), after[n+2:]
	}
}

func (f *fakeS3) list(w http.ResponseWriter, prefix, after string) {
	type content struct {
		Key          string
		LastModified string
		Size         int
		ETag         string
	}
	var answer struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []content
	}
	for _, name := range slices.Sorted(maps.Keys(f.objects)) {
		if name <= after || !strings.HasPrefix(name, prefix) {
			continue
		}
		if len(answer.Contents) == 2 {
			answer.IsTruncated, answer.NextContinuationToken = true, answer.Contents[1].Key
			break
		}
		answer.Contents = append(answer.Contents, content{name, "2006-01-02T15:04:05Z", len(f.objects[name]), `"x"`})
	}
	w.Header().Set("Content-Type", "application/xml")
	xml.NewEncoder(w).Encode(answer)
}

// TestS3 checks that all operations that a store needs work through the S3 driver, below a prefix.
func TestS3(t *testing.T) {
	fake := &fakeS3{objects: map[string][]byte{"other": nil}}
	server := httptest.NewServer(fake)
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	b, err := bucket.Open(t.Context(), "s3://marks?region=eu-west-1&use_path_style=true&disable_https=true&endpoint="+
		server.URL+"&prefix=hippo/")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	want := []string{"a/1", "a/2", "a/3", "b/1", "c"}
	for _, name := range want {
		if err := b.Put(t.Context(), name, []byte("mark "+name)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	if err := b.List(t.Context(), func(name string) { got = append(got, name) }); err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("found %q, %v", got, err)
	}
	if data, err := b.Get(t.Context(), "a/2"); err != nil || string(data) != "mark a/2" {
		t.Errorf("got %q, %v", data, err)
	}
	if err := b.Delete(t.Context(), "a/2"); err != nil {
		t.Error(err)
	}
	if _, err := b.Get(t.Context(), "a/2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	if len(fake.objects) != len(want) || fake.objects["hippo/a/1"] == nil {
		t.Errorf("the server has %q", slices.Sorted(maps.Keys(fake.objects)))
	}
}

// TestDrivers checks that the URL schemes of the three drivers are known, whatever else is wrong with the URLs.
func TestDrivers(t *testing.T) {
	for _, url := range []string{"gs://?x=1", "azblob://", "s3://b?x=1"} {
		b, err := bucket.Open(t.Context(), url)
		if err == nil {
			b.Close()
			continue
		}
		if strings.Contains(err.Error(), "no driver registered") {
			t.Error(err)
		}
	}
}
