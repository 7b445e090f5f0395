package anthropic

import (
	"reflect"

	"github.com/hippo-ssm/hippo/serve/request"
)

// Forms returns the forms of the endpoints, by method and path.
func Forms() map[string]request.Form {
	return map[string]request.Form{
		"POST /v1/messages":              {Body: messageRequest{}, Reply: Message{}},
		"POST /v1/messages/count_tokens": {Body: countRequest{}},

		"POST /v1/messages/batches":             {Body: batchRequest{}, Reply: Batch{}},
		"GET /v1/messages/batches":              {Query: "before_id after_id limit", Reply: batchList{}},
		"GET /v1/messages/batches/{id}":         {Reply: Batch{}},
		"POST /v1/messages/batches/{id}/cancel": {Reply: Batch{}},
	}
}

// Schema returns the schema of a list of messages.
func (*messages) Schema() request.Schema {
	return request.ListSchema(request.SchemaOf(reflect.TypeFor[message]()))
}

// Schema returns the schema of a text or a list of blocks.
func (*content) Schema() request.Schema {
	return request.AnyOf(request.TextSchema(),
		request.ListSchema(request.SchemaOf(reflect.TypeFor[block]())))
}
