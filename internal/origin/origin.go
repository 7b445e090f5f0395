// Package origin tells requests of this machine's programs and of its owner's own pages from those that a page of
// somebody else makes a browser send.
package origin

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Error says what a request has that may not use a server.
type Error struct {
	What  string // "origin" or "host"
	Found string
}

// Error names what was found.
func (e *Error) Error() string {
	return fmt.Sprintf("found the %s %.200q, which may not use this server", e.What, e.Found)
}

// Rules say which requests a server takes.
type Rules struct {
	// Names are those that a request may call the server by besides localhost and addresses; "*" is any.
	Names []string
	// AnyName makes all names good where there are no Names: the server knows its clients by keys.
	AnyName bool
	// Shares tells of an Origin that is not the server's own whether its pages may use the server. nil: none may.
	Shares func(origin string) bool
}

// Check returns an *Error for a request of another page. That is one whose Origin is neither the server's own nor
// shared; or one that calls the server by another name than the rules have: the owner of such a name may have made it
// point here, and a page under that name would count as the server's own.
func (o Rules) Check(r *http.Request) error {
	if from := r.Header.Get("Origin"); from != "" {
		u, err := url.Parse(from)
		if own := err == nil && u.Host == r.Host; !own && (o.Shares == nil || !o.Shares(from)) {
			return &Error{"origin", from}
		}
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	local := host == "" || host == "localhost" || net.ParseIP(host) != nil
	known := slices.Contains(o.Names, "*") || slices.Contains(o.Names, host) || o.AnyName && len(o.Names) == 0
	if !local && !known {
		return &Error{"host", r.Host}
	}
	return nil
}
