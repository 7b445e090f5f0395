package serve

import (
	"fmt"
	"net/http"

	"github.com/hippo-ssm/hippo/session/store"
)

// stored is what was there of a prompt before it was read.
type stored struct {
	tokens int
	miss   string // why not more; "" where all was there
}

// unstored is of a model without a store.
var unstored = stored{miss: "nothing is kept"}

// storedOf is what a store had.
func storedOf(f *store.Found) stored {
	if f.Miss.Reason == store.Whole {
		return stored{tokens: f.Cached}
	}
	return stored{f.Cached, f.Miss.String()}
}

// cacheHeader says in an answer what was stored of a prompt, and why not more.
const cacheHeader = "X-Hippo-Cache"

// tell says it of a prompt of n ids.
func (f stored) tell(h http.Header, n int) {
	text := fmt.Sprintf("cached=%d, read=%d", f.tokens, n-f.tokens)
	if f.miss != "" {
		text += fmt.Sprintf(", miss=%q", f.miss)
	}
	h.Set(cacheHeader, text)
}
