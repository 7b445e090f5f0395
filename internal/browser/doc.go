// Package browser tests the pages of hippo in a browser. It is a module of its own, since it needs one: Chromium, as
// chromium, chromium-browser, google-chrome or what CHROMIUM names. Without one the tests fail.
package browser
