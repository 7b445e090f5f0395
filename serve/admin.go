package serve

import (
	"net/http"
	"net/http/pprof"
)

// Admin responds to operators of the server, without a key: /metrics, /health, /ready and the profiles of pprof under
// /debug/pprof/. It belongs on an address of its own that only they reach.
func (s *Server) Admin() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.endpoints() {
		switch r.pattern {
		case "GET /health", "GET /ready", metricsRoute:
			r.scope = ""
			mux.Handle(r.pattern, s.routed(r))
		}
	}
	for path, h := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.HandleFunc("GET "+path, h)
	}
	return s.by(mux)
}
