package otel

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestSpans checks that a request is a span of its incoming trace, with child spans for its phases, which have tokens
// but no texts.
func TestSpans(t *testing.T) {
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DState = 16, 256, "mamba", 2, 8
	net, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	net.Init(1)
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	m := host.NewModel(host.ModelOptions{Name: "tiny", Net: net, Tokenizer: tokenizer.Bytes()})
	s, err := serve.New(serve.Options{Middleware: Middleware(provider)}, m)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	defer web.Close()
	const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, body := range []string{`{"prompt":"secret","max_tokens":3,"stream":true,"ignore_eos":true}`,
		`{"prompt":{}}`} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/v1/completions",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
		a, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(a.Body); err != nil || a.StatusCode == 200 &&
			!strings.Contains(string(data), "[DONE]") {
			t.Errorf("got %s, %v", data, err)
		}
		a.Body.Close()
	}
	web.Close() // a span ends after its response
	var requests []string
	numbers := map[string]int64{}
	for _, span := range spans.GetSpans() {
		if span.SpanContext.TraceID().String() != traceID {
			t.Errorf("%s is of the trace %v", span.Name, span.SpanContext.TraceID())
		}
		if span.Name == "request" {
			requests = append(requests, span.SpanContext.SpanID().String())
		}
		for _, a := range span.Attributes {
			numbers[span.Name+" "+string(a.Key)] += a.Value.AsInt64()
			if strings.Contains(a.Value.String(), "secret") {
				t.Errorf("%s tells what was sent: %v", span.Name, a)
			}
		}
	}
	for _, span := range spans.GetSpans() {
		if parent := span.Parent.SpanID().String(); span.Name != "request" && parent != requests[0] {
			t.Errorf("%s is below %s, want %v", span.Name, parent, requests)
		}
	}
	for name, want := range map[string]int64{
		"request http.response.status_code": 600, "read gen_ai.usage.input_tokens": 6,
		"generate gen_ai.usage.output_tokens": 3,
	} {
		if numbers[name] != want {
			t.Errorf("%s: got %d, want %d", name, numbers[name], want)
		}
	}
	if len(spans.GetSpans()) != 5 || len(requests) != 2 {
		t.Errorf("there are %d spans, %d of requests, want 5 and 2", len(spans.GetSpans()), len(requests))
	}
}
