// Package fault ends nested calls with an error, for parsers and compilers in which nearly every function would
// otherwise return one.
package fault

import "fmt"

// raised is the value with which Raise panics.
type raised struct{ error }

// Raise ends the function that Catch called, with an error.
func Raise(err error) { panic(raised{err}) }

// Raisef calls Raise with the error of fmt.Errorf.
func Raisef(format string, args ...any) { Raise(fmt.Errorf(format, args...)) }

// Check calls Raise with err, unless err is nil.
func Check(err error) {
	if err != nil {
		Raise(err)
	}
}

// Must returns a result, or raises its error.
func Must[T any](result T, err error) T {
	Check(err)
	return result
}

// Within calls f. If Raise ends f with an error, it raises that error with a prefix: "what: error".
func Within(what string, f func()) {
	if err := Catch(f); err != nil {
		Raisef("%s: %w", what, err)
	}
}

// Catch calls f and returns the error with which Raise ended it. Other panics are passed on.
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
