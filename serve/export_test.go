package serve

import (
	"net/http"

	"github.com/hippo-ssm/hippo/serve/request"
)

// AreNames is areNames, for tests.
var AreNames = areNames

// Patterns returns the patterns of all endpoints.
func (s *Server) Patterns() (all []string) {
	for _, r := range s.endpoints() {
		all = append(all, r.pattern)
	}
	return all
}

// Pattern returns the pattern of the endpoint that answers a request.
func (s *Server) Pattern(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	return pattern
}

// Leaving reports whether /ready reports a shutdown.
func (s *Server) Leaving() bool { return s.leaving.Load() }

// Draining reports whether the server admits no more requests.
func (s *Server) Draining() bool { return s.shared.Open.Err() != nil }

// Bodies returns the number of bytes of all request bodies.
func (s *Server) Bodies() int64 { return int64(s.shared.AllBodies.Taken()) }

// Answer answers a request by a function.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request, by func(*request.Call) error) {
	mux := http.NewServeMux()
	mux.Handle(r.Method+" "+r.URL.Path, s.routed(route{handler: by}))
	s.respond(w, r, mux)
}

// Scopes returns the scopes of all endpoints, by pattern.
func (s *Server) Scopes() map[string]string {
	all := map[string]string{}
	for _, r := range s.endpoints() {
		all[r.pattern] = string(r.scope)
	}
	return all
}

// Forms returns the forms of the endpoints.
func (s *Server) Forms() map[string]request.Form { return s.forms }
