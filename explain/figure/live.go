package figure

import (
	"net/http"

	"github.com/hippo-ssm/hippo/web"
)

// Live returns the handlers for the page that shows a session of a server as its text grows: for "/explain" and the
// assets, for use with those of web.Chat. The page asks the server for explanations of sessions; see package serve.
func Live() map[string]http.Handler {
	paths := web.Page(assets)
	paths["/explain"] = paths["/"]
	delete(paths, "/")
	return paths
}
