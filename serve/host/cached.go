package host

import (
	"fmt"
	"net/http"

	"github.com/hippo-ssm/hippo/session/store"
)

// Cached describes what was cached of a prompt before it was read.
type Cached struct {
	Tokens int
	Miss   string // why not more; "" where all was there
}

// unstored is the result of a model without a store.
var unstored = Cached{Miss: "nothing is kept"}

// cachedOf converts the result of a store.
func cachedOf(f *store.Found) Cached {
	if f.Miss.Reason == store.Whole {
		return Cached{Tokens: f.Cached}
	}
	return Cached{f.Cached, f.Miss.String()}
}

// cacheHeader reports in a response how much of a prompt was cached, and why not more.
const cacheHeader = "X-Hippo-Cache"

// SetHeader sets the header for a prompt of n ids.
func (f Cached) SetHeader(h http.Header, n int) {
	text := fmt.Sprintf("cached=%d, read=%d", f.Tokens, n-f.Tokens)
	if f.Miss != "" {
		text += fmt.Sprintf(", miss=%q", f.Miss)
	}
	h.Set(cacheHeader, text)
}
