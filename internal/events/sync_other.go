//go:build !unix

package events

// syncDir does nothing: Windows has no operation on folders for it, and journals renames itself.
func syncDir(string) error { return nil }
