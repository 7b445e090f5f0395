package request

// Requests share what is cached of their texts only within a scope. Otherwise a client could guess the text of another
// piece by piece: what a response reports of the cache, and how long it takes, shows how much of a guess is cached.
// The scope is the key's, unless the operator lets all keys share one. A server without keys has one scope.

// Salted is the field by which a request has a scope of its own within that of its key, as in vLLM: only requests with
// the same salt share what is cached.
type Salted struct {
	CacheSalt *string `json:"cache_salt"`
}

func (s *Salted) salt() *string { return s.CacheSalt }

// maxSalt is the maximum number of bytes of a salt.
const maxSalt = 256

// Separate gives the request the scope of its key.
func (c *Call) Separate() { c.Scope = c.Owner() }

// separate gives the request a scope within its scope.
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

// Ranked is the field by which a request is before others of its client, as in vLLM: lower numbers are first, 0 is the
// default. Other clients are not concerned: each has its share, whatever the numbers.
type Ranked struct {
	Priority int32 `json:"priority"`
}

func (r *Ranked) rank() int { return int(r.Priority) }
