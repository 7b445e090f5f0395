// Package browser tests the pages of hippo in a browser. It is its own module, because it needs Chromium: chromium,
// chromium-browser, google-chrome or the program named by CHROMIUM. Without one the tests fail.
package browser
