package request

import (
	"context"
	"fmt"
	"runtime/debug"
)

// Panic is a panic as an error.
type Panic struct {
	value any
	Stack []byte
}

func (e *Panic) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Recover turns a panic into an error. Use it with defer.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = &Panic{p, debug.Stack()}
	}
}

// Protect calls f and returns a panic as an error. If ctx is done, it returns the cause instead of another error.
func Protect(ctx context.Context, i int, f func(ctx context.Context, i int) error) (err error) {
	defer Recover(&err)
	if err := f(ctx, i); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}
