package figure

import (
	"net/http"

	"github.com/hippo-ssm/hippo/web"
)

// Live is the page that shows a session of a server as its text grows: what answers GET for "/explain" and for the
// assets, to stand beside those of web.Chat. It asks the server for explanations of sessions; see package serve.
func Live() map[string]http.Handler {
	paths := web.Page(assets)
	paths["/explain"] = paths["/"]
	delete(paths, "/")
	return paths
}
