// Package clients tests hippo serve with clients that others have written. It is a module of its own, so that their
// modules are not those of hippo.
package clients
