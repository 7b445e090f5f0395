package serve

import (
	"context"
	"fmt"
	"runtime/debug"
)

// panicked is an error that a panic became.
type panicked struct {
	value any
	stack []byte
}

func (e *panicked) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// contain makes an error of a panic.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = &panicked{p, debug.Stack()}
	}
}

// contained calls f. A panic becomes an error.
func contained(ctx context.Context, i int, f func(ctx context.Context, i int) error) (err error) {
	defer contain(&err)
	if err := f(ctx, i); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}
