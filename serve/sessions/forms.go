package sessions

import (
	"strings"

	"github.com/hippo-ssm/hippo/serve/request"
)

// Forms returns the forms of the endpoints, by method and path.
func (s *Handler) Forms() map[string]request.Form {
	const of = "POST /v1/sessions/{id}/"
	explain := []string{"view tokens other"}
	for _, v := range s.o.Views {
		for _, o := range v.Options {
			explain = append(explain, o.Name)
		}
	}
	return map[string]request.Form{
		"POST /v1/sessions":     {Body: newSession{}, Reply: Session{}},
		"GET /v1/sessions/{id}": {Query: "text", Reply: Session{}},
		of + "append":           {Body: appendRequest{}, Reply: Session{}},
		of + "generate":         {Body: sessionGenerate{}, Reply: Reply{}},
		of + "fork":             {Body: forkRequest{}, Reply: Session{}},
		of + "mark":             {Body: markRequest{}, Reply: Session{}},
		of + "rewind":           {Body: rewindRequest{}, Reply: rewound{}},
		of + "score":            {Body: scoreRequest{}},

		"POST /v1/states":        {Body: stateRequest{}, Reply: State{}},
		"PUT /v1/states/{hash}":  {Kind: "application/octet-stream", Reply: State{}},
		"PUT /v1/library/{name}": {Body: newText{}, Reply: Text{}},

		"POST /v1/sessions/import":      {Kind: "application/octet-stream", Query: "model", Reply: Session{}},
		"GET /v1/sessions/{id}/explain": {Query: strings.Join(explain, " ")},
	}
}
