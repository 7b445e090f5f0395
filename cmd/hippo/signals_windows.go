package main

import "os"

// userSignal is nil, as Windows has no such signal.
var userSignal os.Signal

// isUnread is never called, as Windows has no SIGPIPE.
func isUnread(*os.File) bool { return false }
