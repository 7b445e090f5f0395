package serve

import (
	"net/http"

	"github.com/hippo-ssm/hippo/serve/request"
)

// slot is llama.cpp's description of a place for a running request.
type slot struct {
	ID   int  `json:"id"`
	Busy bool `json:"is_processing"`
}

// slots responds to llama.cpp's /slots with the places for running requests, and which of them are taken. The response
// has no texts of clients, and a slot has no state of its own.
func (s *Server) slots(c *request.Call) error {
	busy := s.Admission.Running()
	if busy >= s.o.Concurrent && c.Query("fail_on_no_slot") != "" {
		return &request.Error{Status: http.StatusServiceUnavailable, Message: "no slot is free"}
	}
	all := make([]slot, s.o.Concurrent)
	for i := range all {
		all[i] = slot{i, i < busy}
	}
	return c.JSON(all)
}

// version responds to /version of vLLM.
func (s *Server) version(c *request.Call) error {
	return c.JSON(map[string]string{"version": s.o.Version})
}

// byVectors describes how to rank documents for a query with this server.
const byVectors = "/v1/embeddings of the query and of each document, to compare"

// elsewhere maps endpoints of other servers to the corresponding ones of this server.
var elsewhere = map[string]string{
	"/completion": "/v1/completions", "/completions": "/v1/completions", "/chat/completions": "/v1/chat/completions",
	"/generate": "/v1/completions", "/generate_stream": "/v1/completions with stream", "/embedding": "/v1/embeddings",
	"/embeddings": "/v1/embeddings", "/embed": "/v1/embeddings", "/models": "/v1/models", "/info": "/props",
	"/infill": "/v1/completions: the models read from left to right only", "/ping": "/health",
	"/v1/completion": "/v1/completions", "/v1/complete": "/v1/messages",
	"/rerank": byVectors, "/v1/rerank": byVectors, "/v2/rerank": byVectors, "/v1/score": byVectors,
}
