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

// Library is where a Host gets models that are not always loaded. Any number of goroutines may call its functions.
type Library struct {
	// Models describes all models, and loads none. A request that names none gets the first. A list is valid for a
	// second.
	Models func(context.Context) ([]ModelInfo, error)
	// Load loads one of them. It is not called again for a model before the one of the last call is closed. While it is
	// called for a model with a Base, and until that is closed, the Base is loaded.
	Load func(context.Context, ModelInfo) (*Model, error)
	// Show returns the card of a model, without loading it.
	Show func(context.Context, ModelInfo) (ModelCard, error)
	// Pull fetches a published model; nil if clients may not.
	Pull func(ctx context.Context, name string, tell func(PullProgress)) error
	// Delete removes a model from the disk; nil if clients may not.
	Delete func(context.Context, ModelInfo) error

	// KeepAlive is how long an idle model stays loaded: 0 is not at all, less is forever.
	KeepAlive time.Duration
	// Memory is the most bytes that the weights of all loaded models may take, 0 for any.
	Memory int64
	// Texts are the bytes that the stores of the loaded models share in equal parts.
	Texts int64
}

// ModelInfo describes a model that need not be loaded.
type ModelInfo struct {
	Name       string
	Path       string // for the library: no client sees it
	Bytes      int64  // on the disk
	Digest     string // differs if the files differ: 64 hexadecimal digits
	Modified   time.Time
	Format     string // of the files, such as gguf
	Family     string
	Parameters int64  // 0: unknown
	Precision  string // of the weights on the disk
	Memory     int64  // estimated bytes of the loaded weights, without those of Base
	// Base is the name of the model of the library whose weights this one shares, as an adapter does; "" for none.
	Base string
}

// ModelCard describes a model in detail.
type ModelCard struct {
	Template   string // of chats
	Sampling   string // the model's own, as Ollama writes it
	Parameters int
	MaxLength  int // 0 for any
	DModel     int
	Layers     string // the mixers of the blocks, in order
	VocabSize  int

	StateBytes, StateBytesPerToken int // of the state of a text: fixed, and for each token
}

// PullProgress reports the progress of a pull.
type PullProgress struct {
	Status      string
	Digest      string // of what is fetched
	Done, Total int64  // bytes
}

// NewModelCard returns the card of a model, which need not have its weights.
func NewModelCard(net *model.Model, settings *chat.Settings) ModelCard {
	growth, _ := net.Growth()
	layers, _ := net.Config.Plan() // it was valid when the model was made
	return ModelCard{
		Template: settings.Source, Sampling: parameters(settings.Defaults, settings.Stop...),
		Parameters: net.NumParams(), MaxLength: net.MaxLength(), DModel: net.Config.DModel,
		Layers: strings.Join(layers, ","), VocabSize: net.Config.VocabSize,

		StateBytes: generate.NewBatch(net, 1).StateSize(), StateBytesPerToken: growth,
	}
}

// PlainName removes what Ollama adds to a name.
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

// named finds the model of a name: as it is, or in one of Ollama's forms, where large letters are small ones. "" is the
// first.
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

// ParseKeepAlive reads how long an idle model stays loaded: seconds, or a duration such as 5m; below 0 is forever.
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
	const most = 100 * 365 * 24 * time.Hour // more, or no number, is forever
	if seconds >= 0 && seconds < most.Seconds() {
		return time.Duration(seconds * float64(time.Second)), nil
	}
	return -1, nil
}
