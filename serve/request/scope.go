package request

// Requests share cached texts only within a scope. Otherwise a client could guess another client's text piece by piece,
// since the reported cache hits and the response time show how much of a guess is cached. The scope is that of the key,
// unless the operator lets all keys share one. A server without keys has one scope.

// Salted is the field that gives a request its own scope within that of its key, as in vLLM: only requests with the
// same salt share cached texts.
type Salted struct {
	CacheSalt *string `json:"cache_salt"`
}

func (s *Salted) salt() *string { return s.CacheSalt }

// maxSalt is the maximum number of bytes of a salt.
const maxSalt = 256

// Separate sets the scope of the request to that of its key.
func (c *Call) Separate() { c.Scope = c.Owner() }

// separate narrows the scope of the request by a salt.
func (c *Call) separate(salt *string) error {
	if salt == nil {
		return nil
	}
	if n := len(*salt); n == 0 || n > maxSalt {
		return Invalid("cache_salt", "found %d bytes, want a text of 1 to %d", n, maxSalt)
	}
	c.Scope += "/" + *salt
	return nil
}

// Ranked is the field that orders the requests of a client, as in vLLM: lower numbers are first, 0 is the default. It
// does not affect other clients: each has its share, whatever the numbers.
type Ranked struct {
	Priority int32 `json:"priority"`
}

func (r *Ranked) rank() int { return int(r.Priority) }
