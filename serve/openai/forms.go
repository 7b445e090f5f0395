package openai

import (
	"reflect"

	"github.com/hippo-ssm/hippo/serve/request"
)

// page lists the query parameters that pageOf reads.
const page = "after limit order"

// Forms returns the forms of the endpoints, by method and path.
func Forms() map[string]request.Form {
	items := request.Form{Query: page, Reply: listObject[responseItem]{}}
	return map[string]request.Form{
		"GET /v1/models":           {Reply: modelList{}},
		"GET /v1/models/{name...}": {Reply: Model{}},

		"POST /v1/completions":      {Body: completionRequest{}, Reply: Completion{}},
		"POST /v1/chat/completions": {Body: chatRequest{}, Reply: ChatCompletion{}},
		"POST /v1/embeddings":       {Body: embeddingRequest{}, Reply: embeddings{}},

		"POST /v1/responses":                 {Body: responseRequest{}, Reply: Response{}},
		"POST /v1/responses/input_tokens":    {Body: countRequest{}, Reply: inputTokens{}},
		"POST /v1/responses/compact":         {Body: compactRequest{}, Reply: compaction{}},
		"GET /v1/responses/{id}":             {Query: "stream starting_after", Reply: Response{}},
		"GET /v1/responses/{id}/input_items": items,
		"POST /v1/responses/{id}/cancel":     {Reply: Response{}},

		"POST /v1/conversations":                     {Body: newConversation{}, Reply: Conversation{}},
		"GET /v1/conversations/{id}":                 {Reply: Conversation{}},
		"POST /v1/conversations/{id}":                {Body: conversationUpdate{}, Reply: Conversation{}},
		"GET /v1/conversations/{id}/items":           items,
		"POST /v1/conversations/{id}/items":          {Body: newItems{}, Reply: items.Reply},
		"GET /v1/conversations/{id}/items/{item}":    {Reply: responseItem{}},
		"DELETE /v1/conversations/{id}/items/{item}": {Reply: Conversation{}},

		"POST /v1/files":               {Kind: "multipart/form-data", Reply: File{}},
		"GET /v1/files":                {Query: page + " purpose", Reply: listObject[File]{}},
		"GET /v1/files/{id}":           {Reply: File{}},
		"POST /v1/batches":             {Body: batchRequest{}, Reply: Batch{}},
		"GET /v1/batches":              {Query: page, Reply: listObject[Batch]{}},
		"GET /v1/batches/{id}":         {Reply: Batch{}},
		"POST /v1/batches/{id}/cancel": {Reply: Batch{}},

		"GET /tokenizer_info":  {Query: "model"},
		"POST /tokenize":       {Body: tokenizeRequest{}},
		"POST /detokenize":     {Body: detokenizeRequest{}},
		"GET /props":           {Query: "model", Reply: props{}},
		"POST /apply-template": {Body: templateRequest{}},

		"POST /v1/load_lora_adapter":   {Body: adapterRequest{}},
		"POST /v1/unload_lora_adapter": {Body: adapterName{}},
	}
}

// Schema returns the schema of the id of a conversation, or of an object that has it.
func (*conversationRef) Schema() request.Schema {
	id := request.TextSchema()
	return request.AnyOf(id, request.Schema{
		"type": "object", "properties": request.Schema{"id": id}, "required": []string{"id"},
	})
}

// Schema returns the schema of a text or a list of items.
func (*responseInput) Schema() request.Schema {
	return request.AnyOf(request.TextSchema(), request.SchemaOf(reflect.TypeFor[[]inputFields]()))
}
