package main

import "os"

// userSignal is none: Windows has no such signal.
var userSignal os.Signal
