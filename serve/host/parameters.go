package host

import (
	"fmt"
	"strings"

	"github.com/hippo-ssm/hippo/chat"
)

// parameters returns the sampling settings of a model in Ollama's format: a line for each setting, and for each text
// that ends a reply.
func parameters(d chat.Defaults, stops ...string) string {
	var b strings.Builder
	if d.DoSample != nil && !*d.DoSample {
		d.Temperature = new(float64)
	}
	line(&b, "temperature", d.Temperature)
	line(&b, "top_k", d.TopK)
	line(&b, "top_p", d.TopP)
	line(&b, "min_p", d.MinP)
	line(&b, "repeat_penalty", d.RepetitionPenalty)
	line(&b, "num_predict", d.MaxNewTokens)
	for _, stop := range stops {
		fmt.Fprintf(&b, "stop %q\n", stop)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// line adds a line for a number, if there is one.
func line[T any](b *strings.Builder, name string, x *T) {
	if x != nil {
		fmt.Fprintf(b, "%s %v\n", name, *x)
	}
}
