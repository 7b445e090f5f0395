package serve

import (
	"net/http"
	"slices"
	"strings"
)

// shares reports whether pages of an origin may use the server, and sets the headers that allow it.
func (s *Server) shares(c *answering, origin string) bool {
	h := c.Header()
	if len(s.o.Origins) > 0 {
		h.Add("Vary", "Origin")
	}
	if !slices.Contains(s.o.Origins, "*") && !slices.Contains(s.o.Origins, origin) {
		return false
	}
	c.shared = true
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Request-Id, Retry-After, X-Ratelimit-Limit-Requests, "+
		"X-Ratelimit-Remaining-Requests, X-Ratelimit-Reset-Requests, X-Ratelimit-Limit-Tokens, "+
		"X-Ratelimit-Remaining-Tokens, X-Ratelimit-Reset-Tokens")
	return true
}

// preflight handles the preflight request of a browser for a page of another origin. It reports whether the request was
// one.
func (c *answering) preflight() bool {
	if !c.shared || c.Request.Method != http.MethodOptions ||
		c.Request.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h := c.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
	const most = 1024
	if names := c.Request.Header.Get("Access-Control-Request-Headers"); len(names) <= most && areNames(names) {
		h.Set("Access-Control-Allow-Headers", names)
	}
	h.Set("Access-Control-Max-Age", "600")
	c.WriteHeader(http.StatusNoContent)
	return true
}

// areNames reports whether a text is a list of plain header names.
func areNames(list string) bool {
	return list != "" && !strings.ContainsFunc(list, func(c rune) bool {
		return !isLetterOrDigit(c) && !strings.ContainsRune("-_, ", c)
	})
}
