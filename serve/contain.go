package serve

import (
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
