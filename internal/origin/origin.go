// Package origin protects servers from requests that a foreign web page makes a browser send.
package origin

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Error reports that a request's origin or host may not use a server.
type Error struct {
	What  string // "origin" or "host"
	Found string
}

// Error names the origin or host.
func (e *Error) Error() string {
	return fmt.Sprintf("found the %s %.200q, which may not use this server", e.What, e.Found)
}

// Rules are the rules by which a server accepts requests.
type Rules struct {
	// Names are the host names that requests may use besides localhost and addresses; "*" allows any.
	Names []string
	// AnyName accepts all names if there are no Names: the server identifies its clients by keys.
	AnyName bool
	// Shares reports whether pages of a foreign Origin may use the server. If it is nil, none may.
	Shares func(origin string) bool
}

// Check returns an *Error for a request of a foreign page: its Origin is neither the server's own nor shared, or its
// Host is not in the rules. The owner of such a host name may have pointed it to this server, so that a page under that
// name would count as the server's own.
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
