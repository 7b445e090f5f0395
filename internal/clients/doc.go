// Package clients tests hippo serve with clients that others have written. It is its own module, so that their modules
// are not those of hippo.
package clients
