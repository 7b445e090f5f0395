package host

import (
	"fmt"
	"net/http"

	"github.com/hippo-ssm/hippo/session/store"
)

// Cached is what was there of a prompt before it was read.
type Cached struct {
	Tokens int
	Miss   string // why not more; "" where all was there
}

// unstored is of a model without a store.
var unstored = Cached{Miss: "nothing is kept"}

// cachedOf is what a store had.
func cachedOf(f *store.Found) Cached {
	if f.Miss.Reason == store.Whole {
		return Cached{Tokens: f.Cached}
	}
	return Cached{f.Cached, f.Miss.String()}
}

// cacheHeader reports in a response what was cached of a prompt, and why not more.
const cacheHeader = "X-Hippo-Cache"

// SetHeader says it of a prompt of n ids.
func (f Cached) SetHeader(h http.Header, n int) {
	text := fmt.Sprintf("cached=%d, read=%d", f.Tokens, n-f.Tokens)
	if f.Miss != "" {
		text += fmt.Sprintf(", miss=%q", f.Miss)
	}
	h.Set(cacheHeader, text)
}
