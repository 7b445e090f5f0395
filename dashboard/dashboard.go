// Package dashboard shows training runs in a browser, live: losses, learning rate, gradient norm, speed and samples of
// one or several runs, differences of their settings, and the reports of finished runs. It only reads the folders of
// runs.
//
// The files: dashboard has the handler and its routes, runs finds the folders, metrics reads their measurements, thin
// shortens long curves, settings compares configurations, report renders pages; assets is what the browser runs, with
// the charts of uPlot and the shared assets of package web.
package dashboard

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/hippo-ssm/hippo/internal/origin"
	"github.com/hippo-ssm/hippo/web"
)

// uPlot places its charts by style attributes that its scripts set, which the policy of styles does not concern.
//
//go:embed assets
var assets embed.FS

// Options are the options of a dashboard.
type Options struct {
	// Dirs are folders with runs in them, at any depth, or runs.
	Dirs []string
	// Hosts are the host names that requests may use, besides localhost and addresses; "*" for any.
	Hosts []string
}

// Handler serves the dashboard.
type Handler struct {
	o    Options
	runs *finder
	mux  *http.ServeMux
}

// New returns a dashboard. Folders that are not there yet are looked for at every request.
func New(o Options) (*Handler, error) {
	if len(o.Dirs) == 0 {
		return nil, errors.New("dashboard: found no folder, want at least one")
	}
	h := &Handler{o: o, runs: newFinder(o.Dirs), mux: http.NewServeMux()}
	for path, file := range web.Page(assets) {
		if path == "/" {
			path = "/{$}" // and nothing below it
		}
		h.mux.Handle("GET "+path, file)
	}
	h.mux.HandleFunc("GET /api/runs", h.list)
	h.mux.HandleFunc("GET /api/run", h.run)
	h.mux.HandleFunc("GET /api/settings", h.settings)
	h.mux.HandleFunc("GET /report/{path...}", h.report)
	return h, nil
}

// ServeHTTP serves a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	web.Guard(w.Header())
	if err := (origin.Rules{Names: h.o.Hosts}).Check(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// list responds with all runs, the most recently written first.
func (h *Handler) list(w http.ResponseWriter, _ *http.Request) {
	runs, more := h.runs.all()
	out := struct {
		Runs []Run `json:"runs"`
		More int   `json:"more"` // that are not shown
	}{make([]Run, 0, len(runs)), more}
	for _, r := range runs {
		out.Runs = append(out.Runs, r.summary())
	}
	respond(w, out)
}

// run responds with the curves and samples of a run, or not modified if the client has them.
func (h *Handler) run(w http.ResponseWriter, r *http.Request) {
	found, ok := h.find(w, r.FormValue("id"))
	if !ok {
		return
	}
	points := defaultPoints
	if text := r.FormValue("points"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < minPoints || n > maxPoints {
			http.Error(w, fmt.Sprintf("points: found %.40q, want a number from %d to %d", text, minPoints, maxPoints),
				http.StatusBadRequest)
			return
		}
		points = n
	}
	m, err := found.measured()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	curves := m.curves(points)
	curves.Run = found.summary()
	tag := `"` + strconv.FormatInt(curves.Version, 36) + `-` + curves.State + `"`
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	respond(w, curves)
}

// settings responds with the settings of some runs, by key.
func (h *Handler) settings(w http.ResponseWriter, r *http.Request) {
	var runs []*folder
	for _, id := range r.URL.Query()["ids"] {
		found, ok := h.find(w, id)
		if !ok {
			return
		}
		runs = append(runs, found)
	}
	table, err := compare(runs)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	respond(w, table)
}

// find returns the listed run of an id: no text of a request becomes a path.
func (h *Handler) find(w http.ResponseWriter, id string) (*folder, bool) {
	if f := h.runs.find(id); f != nil {
		return f, true
	}
	http.Error(w, fmt.Sprintf("there is no run %.200q", id), http.StatusNotFound)
	return nil, false
}

// respond writes a value as JSON.
func respond(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(data) // an error means that the client has closed
}
