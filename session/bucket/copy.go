package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hippo-ssm/hippo/session/store"
)

// Copy copies the objects of one bucket that another does not have, and returns how many those are. Objects never
// change and are named after their contents: so it can be done at any time, while stores use both, and again after it
// was stopped. What was set aside as damaged stays, as does what has a name that leads out of a folder.
func Copy(ctx context.Context, to, from store.Bucket) (copied int, err error) {
	there := map[string]bool{}
	if err := to.List(ctx, func(name string) { there[name] = true }); err != nil {
		return 0, fmt.Errorf("bucket %s: %w", to, err)
	}
	var missing []string
	err = from.List(ctx, func(name string) {
		if !there[name] && fs.ValidPath(name) && !strings.HasPrefix(name, "aside/") {
			missing = append(missing, name)
		}
	})
	if err != nil {
		return 0, fmt.Errorf("bucket %s: %w", from, err)
	}
	for _, name := range missing {
		data, err := from.Get(ctx, name)
		if errors.Is(err, fs.ErrNotExist) { // a store had no more room for it
			continue
		}
		if err != nil {
			return copied, fmt.Errorf("bucket %s: %s: %w", from, name, err)
		}
		if err := to.Put(ctx, name, data); err != nil {
			return copied, fmt.Errorf("bucket %s: %s: %w", to, name, err)
		}
		copied++
	}
	return copied, nil
}
