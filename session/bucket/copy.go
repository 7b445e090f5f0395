package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hippo-ssm/hippo/session/store"
)

// Copy copies the objects that are missing in another bucket and returns their number. Objects never change and are
// named after their contents, so Copy can run at any time, while stores use both buckets, and again after an
// interruption. It skips quarantined objects and names that lead out of a folder.
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
		if errors.Is(err, fs.ErrNotExist) { // a store has evicted it
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
