package serve

import (
	"net/http"

	"github.com/hippo-ssm/hippo/serve/request"
)

// AreNames is areNames, for tests.
var AreNames = areNames

// Patterns are those of all endpoints.
func (s *Server) Patterns() (all []string) {
	for _, r := range s.endpoints() {
		all = append(all, r.pattern)
	}
	return all
}

// Pattern is that of the endpoint which answers a request.
func (s *Server) Pattern(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	return pattern
}

// Leaving reports whether /ready says that the server ends.
func (s *Server) Leaving() bool { return s.leaving.Load() }

// Draining reports whether the server lets no more requests in.
func (s *Server) Draining() bool { return s.shared.Open.Err() != nil }

// Bodies is the number of bytes of the bodies of all requests.
func (s *Server) Bodies() int64 { return int64(s.shared.AllBodies.Taken()) }

// Answer answers a request by a function.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request, by func(*request.Call) error) {
	mux := http.NewServeMux()
	mux.Handle(r.Method+" "+r.URL.Path, s.routed(route{handler: by}))
	s.respond(w, r, mux)
}

// Scopes are those of all endpoints, by their patterns.
func (s *Server) Scopes() map[string]string {
	all := map[string]string{}
	for _, r := range s.endpoints() {
		all[r.pattern] = string(r.scope)
	}
	return all
}

// Forms are what the endpoints read.
func (s *Server) Forms() map[string]request.Form { return s.forms }
