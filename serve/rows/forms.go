package rows

import "github.com/hippo-ssm/hippo/serve/request"

// Forms returns the forms of the endpoints, by method and path.
func Forms() map[string]request.Form {
	return map[string]request.Form{
		"POST /v1/predict":        {Body: predictRequest{}, Query: "format model as all", Reply: prediction{}},
		"POST /v1/predict/stream": {Kind: "application/x-ndjson", Query: "format model all"},
	}
}
