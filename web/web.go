// Package web holds the chat page and the parts that all pages of hippo share: a style, a few scripts and a file
// server. They are plain files that are embedded in the program, without a build step or external resources. The chat
// page uses the same endpoints as any client, and shows a model's output as text only.
//
// The assets of the chat page:
//
//   - index.html and chat.js assemble the page; chat.css is its layout.
//   - api calls the server, tree and store hold conversations, turn requests replies.
//   - thread, calls, sidebar, composer, settings, writing, rows and branches are the parts of the page.
//   - uploads reads files, choices remembers the model and its settings.
//   - tools parses functions and formats in the settings.
//   - markdown and tokens render text; formulas and colors render with KaTeX and highlight.js.
//
// All pages share dom, theme, format, the conversations of tree and store, the colors and controls of style.css,
// hippo.svg, and uPlot for charts.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
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

// uPlot is the chart library, in its own folder with its license. The chat page does not use it.
//
//go:embed uplot
var uPlot embed.FS

// kept holds libraries of others, as npm distributes them: the minified script and style of katex 0.19.1 with its
// fonts, and es/highlight.min.js of @highlightjs/cdn-assets 11.12.0 with its common languages. Texts are compressed by
// gzip -9n. The page loads the libraries when the first formula or the first code appears.
//
//go:embed kept/katex/*.gz kept/katex/fonts/*.woff2 kept/highlight/*.gz
var kept embed.FS

// Policy is the Content-Security-Policy of the pages. It allows only resources of the server itself, no inline code or
// style, and no framing.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"

// shared lists the assets that pages of other packages use, too.
var shared = []string{"api.js", "dom.js", "format.js", "hippo.svg", "store.js", "style.css", "theme.js", "tree.js",
	"uplot/LICENSE", "uplot/uPlot.css", "uplot/uPlot.js"}

// Shared returns an asset that all pages share, such as "style.css" or "uplot/uPlot.js", for self-contained pages. It
// returns an error if there is no shared asset with that name.
func Shared(name string) ([]byte, error) {
	if !slices.Contains(shared, name) {
		return nil, fmt.Errorf("web: found the name %q, want one of %q", name, shared)
	}
	if strings.HasPrefix(name, "uplot/") {
		return uPlot.ReadFile(name)
	}
	return assets.ReadFile("assets/" + name)
}

// Chat returns the handlers of the chat page, by path. They handle GET requests for "/" and for its assets.
func Chat() map[string]http.Handler {
	paths := page(assets)
	walk(kept, "kept", paths)
	return paths
}

// Page returns the handlers of a page of another package, by path. They handle GET requests for "/", for the page's own
// assets and for the shared ones. The page's own assets are in the folder assets of own, which must hold index.html.
// They replace shared assets of the same name.
func Page(own fs.FS) map[string]http.Handler {
	paths := page(own)
	for _, name := range shared {
		data, err := Shared(name)
		if err != nil {
			panic(err) // impossible: the assets are embedded
		}
		name = "assets/" + name
		if paths["/"+name] == nil {
			paths["/"+name] = newFile(name, data)
		}
	}
	return paths
}

// page returns the handlers of the assets, with index.html at "/".
func page(files fs.FS) map[string]http.Handler {
	paths := map[string]http.Handler{}
	walk(files, "assets", paths)
	paths["/"] = paths["/assets/index.html"]
	return paths
}

// walk adds handlers for the files in a folder, at their paths in /assets/.
func walk(files fs.FS, folder string, paths map[string]http.Handler) {
	err := fs.WalkDir(files, folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		name, packed := strings.CutSuffix("/assets"+strings.TrimPrefix(name, folder), ".gz")
		if !packed {
			paths[name] = newFile(name, data)
			return nil
		}
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return err
		}
		plain, err := io.ReadAll(z)
		f := newPlain(name, plain)
		f.packed, paths[name] = data, f
		return err
	})
	if err != nil {
		panic(err) // impossible: the files are embedded
	}
}

// file is an asset to serve.
type file struct {
	data, packed []byte // packed is the gzip form, or nil if that is hardly smaller
	kind, tag    string
}

func newPlain(name string, data []byte) *file {
	sum := sha256.Sum256(data)
	return &file{data: data, kind: kindOf(name), tag: `"` + hex.EncodeToString(sum[:12]) + `"`}
}

func newFile(name string, data []byte) *file {
	f := newPlain(name, data)
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		panic(err) // impossible: the level is valid
	}
	z.Write(data) // writing to memory does not fail
	z.Close()
	if packed.Len() < len(data)*9/10 {
		f.packed = packed.Bytes()
	}
	return f
}

// kindOf returns the media type of a file, regardless of the system's table.
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
	case ".woff2":
		return "font/woff2"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// ServeHTTP serves the file. A browser revalidates the file each time, so that a page and its parts come from the same
// program.
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

// Guard sets the headers that all parts of a page have: Policy, same-origin rules, and revalidation.
func Guard(h http.Header) {
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", Policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
}

// acceptsGzip reports whether a client accepts gzip.
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
