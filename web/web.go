// Package web has the page to talk with models, and what all pages of hippo share: a style, a few scripts and the way
// files are sent. They are plain files, made into the program, which load nothing from elsewhere and need no step to
// build them. The page talks to the server that it came from, through the endpoints that any client uses, and shows
// what a model wrote as text only.
//
// How the assets read: index.html and chat.js put the page together; api talks to the server, tree and store hold
// conversations, turn asks for replies; thread, calls, sidebar, composer, settings, writing and branches are
// its parts; tools reads what the settings say of functions and formats; markdown and tokens show text; chat.css is its
// layout. Any page has dom, theme, format, the conversations of tree and store, the colors and controls of style.css,
// hippo.svg, and uPlot for charts.
//
// The package imports the standard library alone.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

//go:embed assets
var assets embed.FS

// uPlot is the library that draws lines, in its own folder with its license. The page to talk with models has no lines.
//
//go:embed uplot
var uPlot embed.FS

// Policy is the Content-Security-Policy of the pages: nothing but what comes from the server itself, no code or style
// inside a page, and nobody may frame it.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; frame-ancestors 'none'; form-action 'none'"

// shared are the assets that pages of other packages have, too.
var shared = []string{"api.js", "dom.js", "format.js", "hippo.svg", "store.js", "style.css", "theme.js", "tree.js",
	"uplot/LICENSE", "uplot/uPlot.css", "uplot/uPlot.js"}

// Shared is one of the assets that all pages have, such as "style.css" and "uplot/uPlot.js", for pages that are one
// file. Error: there is none of that name.
func Shared(name string) ([]byte, error) {
	if !slices.Contains(shared, name) {
		return nil, fmt.Errorf("web: found the name %q, want one of %q", name, shared)
	}
	if strings.HasPrefix(name, "uplot/") {
		return uPlot.ReadFile(name)
	}
	return assets.ReadFile("assets/" + name)
}

// Chat is the page to talk with models: what answers GET for its path, "/", and for those of the assets.
func Chat() map[string]http.Handler { return page(assets) }

// Page is a page of another package: what answers GET for its path, "/", and for those of the assets, which are its own
// and the shared ones. Its own lie in the folder assets, with index.html among them. One that has the name of a shared
// one takes its place.
func Page(own fs.FS) map[string]http.Handler {
	paths := page(own)
	for _, name := range shared {
		data, err := Shared(name)
		if err != nil {
			panic(err) // they are in the program
		}
		name = "assets/" + name
		if paths["/"+name] == nil {
			paths["/"+name] = newFile(name, data)
		}
	}
	return paths
}

// page is index.html at "/", and the assets.
func page(files fs.FS) map[string]http.Handler {
	paths := map[string]http.Handler{}
	err := fs.WalkDir(files, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		paths["/"+name] = newFile(name, data)
		return err
	})
	if err != nil {
		panic(err) // they are in the program
	}
	paths["/"] = paths["/assets/index.html"]
	return paths
}

// file is an asset as it is sent.
type file struct {
	data, packed []byte // packed is nil if it would hardly be smaller
	kind, tag    string
}

func newFile(name string, data []byte) *file {
	sum := sha256.Sum256(data)
	f := &file{data: data, kind: kindOf(name), tag: `"` + hex.EncodeToString(sum[:12]) + `"`}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		panic(err) // there is that level
	}
	z.Write(data) // into memory
	z.Close()
	if packed.Len() < len(data)*9/10 {
		f.packed = packed.Bytes()
	}
	return f
}

// kindOf is the media type of a file. What a system thinks of the endings does not matter.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// ServeHTTP sends the file. A browser asks for it each time, and gets it where it has changed: so a page and its parts
// are those of one program.
func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	Guard(h)
	h.Set("Content-Type", f.kind)
	h.Set("Vary", "Accept-Encoding")
	data, tag := f.data, f.tag
	if f.packed != nil && acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		data, tag = f.packed, strings.TrimSuffix(tag, `"`)+`-gzip"`
	}
	h.Set("ETag", tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// Guard sets the headers of whatever a page is made of: Policy, and that it is nobody else's and is asked for each
// time.
func Guard(h http.Header) {
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", Policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
}

// acceptsGzip reports whether a client takes gzip.
func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q := strings.ReplaceAll(quality, " ", "")
			return q != "q=0" && strings.Trim(q, "0.") != "q="
		}
	}
	return false
}
