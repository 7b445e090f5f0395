package main

import "os"

// userSignal is none: Windows has no such signal.
var userSignal os.Signal

// isUnread is not asked: Windows has no SIGPIPE.
func isUnread(*os.File) bool { return false }
