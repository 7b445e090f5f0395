package openai

import (
	"fmt"
	"net/http"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// adapterRequest is the body of /v1/load_lora_adapter.
type adapterRequest struct {
	Name    string `json:"lora_name"`
	Path    string `json:"lora_path"`
	Base    string `json:"base_model_name"`
	Replace bool   `json:"load_inplace"`
}

// adapterName is the body of /v1/unload_lora_adapter.
type adapterName struct {
	Name string `json:"lora_name"`
}

// errNoAdapters is the error of a server whose adapters cannot be changed by clients.
var errNoAdapters = &request.Error{
	Status: http.StatusForbidden, Code: "forbidden",
	Message: "this server lets no client add or remove adapters; hippo serve --adapter_dir does",
}

// LoadAdapter responds to vLLM's /v1/load_lora_adapter. It serves another adapter as a model of the given name.
func (s *Texts) LoadAdapter(c *request.Call) error {
	var q adapterRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if s.Host.Library == nil || s.Host.Library.AddAdapter == nil {
		return errNoAdapters
	}
	if err := s.Host.Library.AddAdapter(c.Request.Context(), host.NewAdapter{
		Name: q.Name, Base: q.Base, Path: q.Path, Replace: q.Replace,
	}); err != nil {
		return err
	}
	s.Host.Refresh()
	c.Note("model", q.Name)
	return c.Send(http.StatusOK, "text/plain; charset=utf-8",
		fmt.Appendf(nil, "Success: LoRA adapter '%s' added successfully.", q.Name))
}

// UnloadAdapter responds to vLLM's /v1/unload_lora_adapter. Requests that are using the adapter continue.
func (s *Texts) UnloadAdapter(c *request.Call) error {
	var q adapterName
	if err := c.Read(&q); err != nil {
		return err
	}
	if s.Host.Library == nil || s.Host.Library.RemoveAdapter == nil {
		return errNoAdapters
	}
	if err := s.Host.Library.RemoveAdapter(c.Request.Context(), q.Name); err != nil {
		return err
	}
	s.Host.Removed(q.Name)
	c.Note("model", q.Name)
	return c.Send(http.StatusOK, "text/plain; charset=utf-8",
		fmt.Appendf(nil, "Success: LoRA adapter '%s' removed successfully.", q.Name))
}

// adapter is llama.cpp's description of an adapter. Its scale is 0 in replies of the base model, and 1 in its own.
type adapter struct {
	ID    int     `json:"id"`
	Path  string  `json:"path"` // the name, since clients do not see paths
	Scale float64 `json:"scale"`
}

// Adapters responds to GET /lora-adapters of llama.cpp.
func (s *Texts) Adapters(c *request.Call) error {
	all, err := s.Host.All(c.Request.Context())
	if err != nil {
		return err
	}
	list := []adapter{}
	for _, info := range all {
		if info.Base != "" && info.CopyOf == "" {
			list = append(list, adapter{ID: len(list), Path: info.Name})
		}
	}
	return c.JSON(list)
}

// ScaleAdapters refuses llama.cpp's POST /lora-adapters, which would affect all clients.
func (s *Texts) ScaleAdapters(*request.Call) error {
	return &request.Error{
		Status: http.StatusNotImplemented, Code: "not_implemented",
		Message: "this server mixes no adapters into the replies of a model: want the adapter's name as model",
	}
}
