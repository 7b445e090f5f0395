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

// Check returns an *Error for a request of another page. That is one whose Origin is not the server's own; or one that
// calls the server by a name which is neither an address, nor localhost, nor one of names ("*" is any): the owner of
// such a name may have made it point here, and a page under that name would count as the server's own. Where anyName
// is set and there are no names, all names are good: the server knows its clients by keys.
func Check(r *http.Request, names []string, anyName bool) error {
	if from := r.Header.Get("Origin"); from != "" {
		if u, err := url.Parse(from); err != nil || u.Host != r.Host {
			return &Error{"origin", from}
		}
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	local := host == "" || host == "localhost" || net.ParseIP(host) != nil
	known := slices.Contains(names, "*") || slices.Contains(names, host) || anyName && len(names) == 0
	if !local && !known {
		return &Error{"host", r.Host}
	}
	return nil
}
