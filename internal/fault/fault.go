// Package fault ends nested calls with an error, for parsers and compilers in which nearly every function would
// otherwise return one.
package fault

import "fmt"

// raised is what Raise panics with.
type raised struct{ error }

// Raise ends the function that Catch called with an error.
func Raise(err error) { panic(raised{err}) }

// Raisef is Raise of fmt.Errorf.
func Raisef(format string, args ...any) { Raise(fmt.Errorf(format, args...)) }

// Check is Raise of an error, unless it is nil.
func Check(err error) {
	if err != nil {
		Raise(err)
	}
}

// Must is a result without its error, which it raises.
func Must[T any](result T, err error) T {
	Check(err)
	return result
}

// Within calls f, and raises the error that Raise ended it with after what it is about: "what: error".
func Within(what string, f func()) {
	if err := Catch(f); err != nil {
		Raisef("%s: %w", what, err)
	}
}

// Catch calls f and returns the error that Raise ended it with. Other panics go on.
func Catch(f func()) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case raised:
			err = e.error
		default:
			panic(e)
		}
	}()
	f()
	return nil
}
