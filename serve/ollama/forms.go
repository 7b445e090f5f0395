package ollama

import "github.com/hippo-ssm/hippo/serve/request"

// Forms returns the forms of the endpoints, by method and path.
func Forms() map[string]request.Form {
	return map[string]request.Form{
		"POST /api/generate":   {Body: chatRequest{}, Reply: Response{}},
		"POST /api/chat":       {Body: chatRequest{}, Reply: Response{}},
		"POST /api/embed":      {Body: embedRequest{}},
		"POST /api/embeddings": {Body: embedRequest{}},
		"GET /api/ps":          {Reply: Loaded{}},
		"POST /api/show":       {Body: nameRequest{}},
		"POST /api/copy":       {Body: copyRequest{}},
		"POST /api/pull":       {Body: nameRequest{}, Reply: pullLine{}},
		"DELETE /api/delete":   {Body: nameRequest{}},
	}
}
