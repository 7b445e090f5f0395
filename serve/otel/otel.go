// Package otel traces requests of package serve with OpenTelemetry: a span for each request, with child spans for its
// time in the queue, the reading of prompts and the generation of replies. A request with a traceparent header
// continues that trace. Spans have models, tokens and statuses, but no content from clients.
//
// It is a separate module because its dependencies are large.
package otel

import (
	"context"
	"net/http"

	"github.com/hippo-ssm/hippo/serve/request"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Middleware returns a value for serve.Options.Middleware that reports the spans of all requests to a provider.
func Middleware(to trace.TracerProvider) func(http.Handler) http.Handler {
	tracer := to.Tracer("github.com/hippo-ssm/hippo/serve")
	remote := propagation.TraceContext{}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := remote.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
			ctx, span := tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
			defer span.End()
			span.SetAttributes(attribute.String("http.request.method", method(r.Method)))
			seen := &answer{ResponseWriter: w}
			next.ServeHTTP(seen, r.WithContext(request.WithTrace(ctx, phases(tracer))))
			// The server's id, since the server may have replaced the client's.
			span.SetAttributes(
				attribute.Int("http.response.status_code", seen.status),
				attribute.String("hippo.request_id", w.Header().Get("X-Request-Id")),
			)
			if seen.status >= http.StatusInternalServerError {
				span.SetStatus(codes.Error, http.StatusText(seen.status))
			}
		})
	}
}

// method returns a standard HTTP method, or "_OTHER", as OpenTelemetry's conventions require.
func method(name string) string {
	switch name {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions,
		http.MethodPatch, http.MethodConnect, http.MethodTrace:
		return name
	}
	return "_OTHER"
}

// phases returns a function that makes a span of each phase of a request.
func phases(tracer trace.Tracer) request.Trace {
	return func(ctx context.Context, p request.Phase) func(request.PhaseEnd) {
		_, span := tracer.Start(ctx, string(p))
		return func(e request.PhaseEnd) {
			if e.Model != "" {
				span.SetAttributes(attribute.String("gen_ai.request.model", e.Model),
					attribute.Int("gen_ai.usage.input_tokens", e.Read),
					attribute.Int("gen_ai.usage.output_tokens", e.Written))
			}
			if e.Err != nil {
				span.SetStatus(codes.Error, "") // the error may quote the client
			}
			span.End()
		}
	}
}

// answer records the status of a response.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap returns the underlying ResponseWriter for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
