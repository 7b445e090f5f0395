package host

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Library provides a Host with models that are loaded on request. Any number of goroutines may call its functions.
type Library struct {
	// Models describes all models without loading any. A request without a name gets the first. The list may be cached
	// for a second.
	Models func(context.Context) ([]ModelInfo, error)
	// Load loads a model. It is called again for a model only after the previous instance was closed. A model with a
	// Base is loaded and used only while the Base is loaded.
	Load func(context.Context, ModelInfo) (*Model, error)
	// Show returns the card of a model, without loading it.
	Show func(context.Context, ModelInfo) (ModelCard, error)
	// Pull downloads a published model; nil if clients must not do so.
	Pull func(ctx context.Context, name string, tell func(PullProgress)) error
	// Delete removes a model from the disk; nil if clients must not do so.
	Delete func(context.Context, ModelInfo) error

	// AddAdapter starts to serve an adapter, RemoveAdapter stops serving it; nil if clients must not do so.
	AddAdapter    func(context.Context, NewAdapter) error
	RemoveAdapter func(ctx context.Context, name string) error

	// KeepAlive is the time for which an idle model stays loaded: 0 unloads it at once, negative values never.
	KeepAlive time.Duration
	// Memory is the maximum memory in bytes for the weights of all loaded models, 0 for no limit.
	Memory int64
	// Texts is the memory in bytes for prompt caches. The loaded models share it equally.
	Texts int64
}

// NewAdapter describes an adapter to be served as a named model.
type NewAdapter struct {
	Name    string
	Base    string // its base model; "": the only one, or MODEL of a name MODEL:NAME
	Path    string // in the library's folder for adapters
	Replace bool   // replace an adapter of the same name
}

// ModelInfo describes a model, which need not be loaded.
type ModelInfo struct {
	Name       string
	Path       string // for the library; clients do not see it
	Bytes      int64  // on the disk
	Digest     string // changes whenever the files change: 64 hexadecimal digits
	Modified   time.Time
	Format     string // of the files, such as gguf
	Family     string
	Parameters int64  // 0: unknown
	Precision  string // of the weights on the disk
	Memory     int64  // estimated bytes of the loaded weights, without those of Base
	// Base is the name of the model whose weights this one shares, such as an adapter's base model; "" for none.
	Base string
	// CopyOf is the name of the model of which this is another name, "" for none.
	CopyOf string
}

// ModelCard describes a model in detail.
type ModelCard struct {
	Template   string // of chats
	Sampling   string // the model's defaults, as Ollama writes them
	Parameters int
	MaxLength  int // 0 for no limit
	DModel     int
	Layers     string // the mixers of the blocks, in order
	VocabSize  int

	StateBytes, StateBytesPerToken int // of the state of a text: fixed, and per token
}

// PullProgress reports the progress of a pull.
type PullProgress struct {
	Status      string
	Digest      string // of the download
	Done, Total int64  // bytes
}

// NewModelCard returns the card of a model, which may lack its weights.
func NewModelCard(net *model.Model, settings *chat.Settings) ModelCard {
	growth, _ := net.Growth()
	layers, _ := net.Config.Plan() // valid since the model was created
	return ModelCard{
		Template: settings.Source, Sampling: parameters(settings.Defaults, settings.Stop...),
		Parameters: net.NumParams(), MaxLength: net.MaxLength(), DModel: net.Config.DModel,
		Layers: strings.Join(layers, ","), VocabSize: net.Config.VocabSize,

		StateBytes: generate.NewBatch(net, 1).StateSize(), StateBytesPerToken: growth,
	}
}

// PlainName returns a name without the prefixes and the suffix that Ollama adds.
func PlainName(name string) string {
	for _, host := range []string{"hf.co/", "huggingface.co/"} {
		if len(name) > len(host) && strings.EqualFold(name[:len(host)], host) {
			name = name[len(host):]
		}
	}
	const latest = ":latest"
	if at := len(name) - len(latest); at > 0 && strings.EqualFold(name[at:], latest) {
		name = name[:at]
	}
	return name
}

// named finds a model by its exact name, or by one of Ollama's forms, which ignore case. "" is the first model.
func named(all []ModelInfo, name string) (found ModelInfo, ok bool) {
	if name == "" && len(all) > 0 {
		return all[0], true
	}
	plain := PlainName(name)
	for _, same := range []func(string) bool{
		func(other string) bool { return other == name },
		func(other string) bool { return other == plain },
		func(other string) bool { return strings.EqualFold(other, plain) },
	} {
		for _, info := range all {
			if same(info.Name) {
				return info, true
			}
		}
	}
	return found, false
}

// ParseKeepAlive parses the time for which an idle model stays loaded: seconds, or a duration such as 5m; negative for
// ever.
func ParseKeepAlive(text string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("found %s, want seconds or a duration such as 5m, -1 for ever",
				request.Shorten([]byte(text)))
		}
		return d, nil
	}
	const most = 100 * 365 * 24 * time.Hour // longer, or not a number: forever
	if seconds >= 0 && seconds < most.Seconds() {
		return time.Duration(seconds * float64(time.Second)), nil
	}
	return -1, nil
}
