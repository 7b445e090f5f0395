package dashboard

import (
	"bytes"
	"html/template"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// markdown drops HTML and unsafe links, as a report quotes generated text.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM))

// page is the template of the page around a report.
var page = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<link rel="icon" href="/assets/hippo.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/style.css">
<link rel="stylesheet" href="/assets/dashboard.css">
<script type="module" src="/assets/theme.js"></script>
<main class="report">
<nav><a href="/#{{.Title}}">← all runs</a></nav>
{{.Body}}
</main>
`))

// report responds with the report of a run, /report/ID/, or one of its pictures, /report/ID/NAME.png.
func (h *Handler) report(w http.ResponseWriter, r *http.Request) {
	id, name := path.Split(r.PathValue("path"))
	id = strings.TrimSuffix(id, "/")
	found := h.runs.find(id)
	if found == nil {
		found = h.runs.find("/" + id) // a folder with an absolute path: two slashes in the URL became one
	}
	if found == nil {
		http.NotFound(w, r)
		return
	}
	if name == "" {
		found.page(w, r)
		return
	}
	found.picture(w, r, name)
}

// page writes the card or report of a run.
func (r *folder) page(w http.ResponseWriter, req *http.Request) {
	for _, name := range []string{reportFile, cardFile} {
		text, err := disk.ReadText(filepath.Join(r.dir, name), disk.MaxText)
		if os.IsNotExist(err) {
			continue
		}
		var body bytes.Buffer
		if err == nil {
			err = markdown.Convert(text, &body)
		}
		var all bytes.Buffer
		if err == nil {
			err = page.Execute(&all, struct {
				Title string
				Body  template.HTML
			}{r.id, template.HTML(body.String())}) // goldmark has escaped it
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(all.Bytes()) // fails only if the client has disconnected
		return
	}
	http.NotFound(w, req)
}

// picture writes a picture in the folder of a run.
func (r *folder) picture(w http.ResponseWriter, req *http.Request, name string) {
	if path.Ext(name) != ".png" || name != filepath.Base(name) {
		http.NotFound(w, req)
		return
	}
	file, info, err := disk.Open(filepath.Join(r.dir, name))
	if err != nil {
		http.NotFound(w, req)
		return
	}
	defer file.Close()
	http.ServeContent(w, req, name, info.ModTime(), file)
}
