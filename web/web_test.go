package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// get requests a path of the chat page.
func get(t *testing.T, path string, headers map[string]string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	Chat()[path].ServeHTTP(w, r)
	return w.Result()
}

// TestFilesAreSentOnce checks that a file is not sent again to a browser that has it, in each encoding, and that other
// browsers get it.
func TestFilesAreSentOnce(t *testing.T) {
	for _, encoding := range []string{"", "gzip", "br, gzip;q=0.5", "gzip;q=0", "deflate"} {
		first := get(t, "/assets/tree.js", map[string]string{"Accept-Encoding": encoding})
		body, err := io.ReadAll(first.Body)
		if err != nil {
			t.Fatal(err)
		}
		packed := strings.Contains(encoding, "gzip") && encoding != "gzip;q=0"
		if got := first.Header.Get("Content-Encoding") == "gzip"; got != packed {
			t.Errorf("%q: packed %v, want %v", encoding, got, packed)
		}
		if packed {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := assets.ReadFile("assets/tree.js"); err != nil || !bytes.Equal(body, want) {
			t.Errorf("%q: another file (%v)", encoding, err)
		}
		tag := first.Header.Get("ETag")
		again := get(t, "/assets/tree.js", map[string]string{"Accept-Encoding": encoding, "If-None-Match": tag})
		if again.StatusCode != http.StatusNotModified || tag == "" {
			t.Errorf("%q: status %d for the tag %q", encoding, again.StatusCode, tag)
		}
		other := get(t, "/assets/tree.js", map[string]string{"Accept-Encoding": encoding, "If-None-Match": `"another"`})
		if other.StatusCode != http.StatusOK {
			t.Errorf("%q: status %d for another tag", encoding, other.StatusCode)
		}
	}
}

var (
	reference = regexp.MustCompile(`(?:src|href)="([^"#]+)"|(?:from|import)\(? ?'([^']+)'`)
	inside    = regexp.MustCompile(`(?i)<style|\sstyle=|\son\w+=|<script(?:>| [^>]*>[^<])|innerHTML|outerHTML|` +
		`insertAdjacentHTML|document\.write|eval\(|new Function|https?://[a-z0-9.-]+/`)
)

// TestPageStandsAlone checks that pages request only files that exist, and contain neither inline code nor inline
// style, nor code that turns texts into markup.
func TestPageStandsAlone(t *testing.T) {
	paths := Chat()
	for path := range paths {
		name := strings.TrimPrefix(path, "/")
		if strings.HasPrefix(name, "assets/katex/") || strings.HasPrefix(name, "assets/highlight/") {
			continue // libraries of others, which run under the same policy
		}
		if path == "/" {
			name = "assets/index.html"
		}
		data, err := assets.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "http://www.w3.org/2000/svg", "")
		text = strings.ReplaceAll(text, "there is no innerHTML", "")
		if found := inside.FindString(text); found != "" {
			t.Errorf("%s has %q", name, found)
		}
		for _, found := range reference.FindAllStringSubmatch(text, -1) {
			to := found[1] + found[2]
			if rest, ok := strings.CutPrefix(to, "./"); ok {
				to = "/assets/" + rest
			}
			if paths[to] == nil {
				t.Errorf("%s asks for %s, which is not there", name, to)
			}
		}
		if lines := strings.Count(text, "\n"); lines > 400 {
			t.Errorf("%s has %d lines, want at most 400", name, lines)
		}
	}
}
