package request

import (
	"context"
	"fmt"
	"runtime/debug"
)

// Panic is the error of a panic.
type Panic struct {
	value any
	Stack []byte
}

func (e *Panic) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Recover turns a panic into an error. It is deferred.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = &Panic{p, debug.Stack()}
	}
}

// Protect calls f. A panic becomes an error.
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
