// Package dashboard shows training runs in a browser, live: losses, learning rate, gradient norm, speed and samples of
// one or several runs, differences of their settings, and the reports of finished runs. It only reads the folders of
// runs.
//
// The files: dashboard holds the handler and its routes, runs finds the folders, metrics reads their measurements, thin
// shortens long curves, settings compares configurations, and report renders pages. assets holds the code for the
// browser, which also uses uPlot and the shared assets of package web.
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

// The policy allows uPlot to place its charts, as its scripts set style attributes directly.
//
//go:embed assets
var assets embed.FS

// Options are the options of a dashboard.
type Options struct {
	// Dirs lists folders that are runs or hold runs, at most 8 levels below.
	Dirs []string
	// Hosts lists the host names that requests may use, in addition to localhost and addresses. "*" allows any.
	Hosts []string
}

// Handler is an http.Handler that serves the dashboard.
type Handler struct {
	o    Options
	runs *finder
	mux  *http.ServeMux
}

// New returns a dashboard. Folders need not exist yet, as each request looks for them again.
func New(o Options) (*Handler, error) {
	if len(o.Dirs) == 0 {
		return nil, errors.New("dashboard: found no folder, want at least one")
	}
	h := &Handler{o: o, runs: newFinder(o.Dirs), mux: http.NewServeMux()}
	for path, file := range web.Page(assets) {
		if path == "/" {
			path = "/{$}" // only this path, not those below
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
		More int   `json:"more"` // number of runs that are not listed
	}{make([]Run, 0, len(runs)), more}
	for _, r := range runs {
		out.Runs = append(out.Runs, r.summary())
	}
	respond(w, out)
}

// run responds with the curves and samples of a run, or with status 304 (Not Modified) if the client has them.
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

// settings responds with the settings of the requested runs, by key.
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

// find returns the listed run with an id. As it searches the list, no text of a request is used as a path.
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
	w.Write(data) // fails only if the client has disconnected
}
