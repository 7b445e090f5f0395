// Package licenses holds the licenses and notices of a hippo program, for its own code and its dependencies.
// internal/notice generates them.
package licenses

import _ "embed" // for the text

// Text is NOTICE with the full text of every license.
//
//go:embed licenses.txt
var Text string
