package disk

import (
	"errors"
	"runtime"
	"runtime/debug"
)

// ErrFault is the error of reading mapped memory that no longer exists.
var ErrFault = errors.New("the file was cut short or closed while in use")

// Guard runs f and returns ErrFault if f touches mapped memory that no longer exists, because another process truncated
// the file or because it was closed. Without Guard such a fault ends the process.
func Guard(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		// Only a fault at an address has the method Addr; every other panic is a bug in this program.
		if e, ok := r.(runtime.Error); ok {
			if _, ok := e.(interface{ Addr() uintptr }); ok {
				err = ErrFault
				return
			}
		}
		panic(r)
	}()
	f()
	return nil
}
