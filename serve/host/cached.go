package host

import (
	"fmt"
	"net/http"

	"github.com/hippo-ssm/hippo/session/store"
)

// Cached describes what was cached of a prompt before it was read.
type Cached struct {
	Tokens int
	Kept   int    // cached after it was read
	Miss   string // why no more was cached; "" if all was
	// TooLarge reports whether a state of the prompt is larger than the prompt cache, and so cannot be cached.
	TooLarge bool
}

// unstored is the result for a model without a store.
var unstored = Cached{Miss: "nothing is kept"}

// cachedOf converts the result of a store.
func cachedOf(f *store.Found) Cached {
	c := Cached{Tokens: f.Cached, Kept: f.Kept, TooLarge: f.TooLarge}
	if f.Miss.Reason != store.Whole {
		c.Miss = f.Miss.String()
	}
	return c
}

// cacheHeader is the response header that reports how much of a prompt was cached, and why not more.
const cacheHeader = "X-Hippo-Cache"

// SetHeader sets the header for a prompt of n ids.
func (f Cached) SetHeader(h http.Header, n int) {
	text := fmt.Sprintf("cached=%d, read=%d", f.Tokens, n-f.Tokens)
	if f.Miss != "" {
		text += fmt.Sprintf(", miss=%q", f.Miss)
	}
	if f.TooLarge {
		text += `, unkept="the state is larger than the prompt cache"`
	}
	h.Set(cacheHeader, text)
}
