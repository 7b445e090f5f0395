package serve

import (
	"net/http"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// What a token was taken for, in hippo_tokens_total.
const (
	tokensRead    = "read"
	tokensCached  = "cached"
	tokensWritten = "written"
)

// otherRoute is the route of requests for what there is not. Labels are patterns of routes and names of models that the
// server has: a client cannot make a new one.
const otherRoute = "other"

// metrics are the figures of a server for Prometheus.
type metrics struct {
	registry *prometheus.Registry
	page     http.Handler

	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	tokens   *prometheus.CounterVec
	first    *prometheus.HistogramVec
	queued   prometheus.Histogram
	limited  *prometheus.CounterVec
	moved    *prometheus.CounterVec
	loading  *prometheus.HistogramVec

	// Of clients with keys, by the names of their keys.
	asked *prometheus.CounterVec
	spent *prometheus.CounterVec
}

// What has happened to a model, in hippo_model_changes_total.
const (
	modelLoaded   = "loaded"
	modelFailed   = "failed"
	modelUnloaded = "unloaded"
)

// newMetrics are the figures of s, all 0.
func newMetrics(s *Server) *metrics {
	waits := prometheus.ExponentialBuckets(0.001, 2, 18)
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hippo_requests_total", Help: "Requests that have been answered; status 499: the client has gone.",
		}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hippo_request_seconds", Help: "From a request to the end of its answer.", Buckets: waits,
		}, []string{"route"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hippo_tokens_total",
			Help: "Tokens of prompts that were read, those that were cached and not read, and those written.",
		}, []string{"model", "kind"}),
		first: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hippo_first_token_seconds", Help: "From a request to its first token.", Buckets: waits,
		}, []string{"model"}),
		queued: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "hippo_queue_seconds", Help: "That requests have waited to run.", Buckets: waits,
		}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hippo_limited_total", Help: "Requests that were turned away, by the limit that they met.",
		}, []string{"limit"}),
		moved: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hippo_model_changes_total", Help: "Models of the library that were loaded, or not, or have gone.",
		}, []string{"model", "change"}),
		loading: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hippo_model_load_seconds", Help: "That loading a model took.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 12),
		}, []string{"model"}),
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hippo_client_requests_total", Help: "Requests that have been answered, by the name of the key.",
		}, []string{"client", "status"}),
		spent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hippo_client_tokens_total",
			Help: "Tokens as in hippo_tokens_total, by the name of the key of the client that they were for.",
		}, []string{"client", "kind"}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "hippo_build_info", Help: "Of the program: always 1.",
	}, []string{"version", "go"})
	build.WithLabelValues(s.o.Version, runtime.Version()).Set(1)
	m.registry.MustRegister(
		m.requests, m.seconds, m.tokens, m.first, m.queued, m.limited, m.moved, m.loading, m.asked, m.spent,
		build, modelFigures{s},
		gauge("hippo_requests_running", "Requests that run.", func() float64 {
			return float64(len(s.admit.places) + len(s.predictions.places))
		}),
		gauge("hippo_requests_waiting", "Requests that wait to run.",
			func() float64 { return float64(max(0, s.admit.waiting.Load()+s.predictions.waiting.Load())) }),
		gauge("hippo_row_streams", "Streams of rows to predict from that are open.",
			func() float64 { return float64(len(s.streams)) }),
		gauge("hippo_models_loaded", "Models in memory.", func() float64 { return float64(len(s.loaded())) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	for _, limit := range []string{limitQueue, limitRequests, limitTokens} {
		m.limited.WithLabelValues(limit)
	}
	m.page = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return m
}

// tokenCounter counts tokens of one kind for a model, and for the client whose key was used, if there was one.
type tokenCounter [2]prometheus.Counter

func (m *metrics) tokenCounter(model, client, kind string) tokenCounter {
	c := tokenCounter{m.tokens.WithLabelValues(model, kind)}
	if client != "" {
		c[1] = m.spent.WithLabelValues(client, kind)
	}
	return c
}

func (c tokenCounter) add(n int) {
	for _, of := range c {
		if of != nil {
			of.Add(float64(n))
		}
	}
}

// loaded are the models that are in memory.
func (s *Server) loaded() []*Model {
	var models []*Model
	for _, l := range s.models.loaded() {
		models = append(models, l.model)
	}
	return models
}

// metricsPage answers with the figures.
func (s *Server) metricsPage(c *call) error {
	s.metrics.page.ServeHTTP(c, c.r)
	return nil
}

// answered counts a request.
func (m *metrics) answered(c *call, status int, seconds float64) {
	route := c.route
	if route == "" {
		route = otherRoute
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(seconds)
	if c.key != nil {
		m.asked.WithLabelValues(c.key.Name, strconv.Itoa(status)).Inc()
	}
	if c.err != nil {
		if e := answerOf(c.err); e.Limit != "" {
			m.limited.WithLabelValues(e.Limit).Inc()
		}
	}
}

// modelFigures are those that the models count themselves.
type modelFigures struct{ s *Server }

// figure describes one of them.
func figure(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"model"}, labels...), nil)
}

var (
	figureNext      = figure("hippo_next_token_seconds", "From a token to the next, drawing included.")
	figureSequences = figure("hippo_batch_sequences", "Sequences of a step of the model.")
	figureRows      = figure("hippo_batch_tokens", "Tokens that a step of the model reads.")
	figureServed    = figure("hippo_sequences", "Sequences now: in a step, or waiting for one.", "state")
	figureSought    = figure("hippo_texts_total", "Texts looked for among those stored, by why no more was found.",
		"found")
	figureSaved  = figure("hippo_text_tokens_found_total", "Tokens found stored of texts that were looked for.")
	figureMarks  = figure("hippo_stored_marks", "Places in stored texts to go on from.", "where")
	figureBytes  = figure("hippo_stored_bytes", "Of stored texts.", "where")
	figureMoved  = figure("hippo_stored_marks_total", "Marks read from the folder or bucket, and written.", "done")
	figureEvicts = figure("hippo_evictions_total", "Marks that were given up for want of room.")
)

// Describe describes nothing: which figures there are depends on the models.
func (modelFigures) Describe(chan<- *prometheus.Desc) {}

// Collect gives all figures as they are now.
func (f modelFigures) Collect(to chan<- prometheus.Metric) {
	for _, m := range f.s.loaded() {
		if runner, ok := unwatched(m.runner).(interface{ Stats() session.SchedulerStats }); ok {
			collectScheduler(to, m.name, runner.Stats())
		}
		if m.texts != nil {
			collectStore(to, m.name, m.texts.Stats())
		}
	}
}

// unwatched is what a model's requests are run by in the end.
func unwatched(r session.Runner) session.Runner {
	for {
		switch w := r.(type) {
		case watched:
			r = w.Runner
		case ranked:
			r = w.Runner
		default:
			return r
		}
	}
}

func collectScheduler(to chan<- prometheus.Metric, model string, stats session.SchedulerStats) {
	for desc, h := range map[*prometheus.Desc]session.Histogram{
		figureNext: stats.NextToken, figureSequences: stats.Sequences, figureRows: stats.Rows,
	} {
		buckets, count := map[float64]uint64{}, uint64(0)
		for i, bound := range h.Bounds {
			count += uint64(h.Counts[i])
			buckets[bound] = count
		}
		count += uint64(h.Counts[len(h.Bounds)])
		to <- prometheus.MustNewConstHistogram(desc, count, h.Sum, buckets, model)
	}
	now := func(n int, state string) {
		to <- prometheus.MustNewConstMetric(figureServed, prometheus.GaugeValue, float64(n), model, state)
	}
	now(stats.Running, "running")
	now(stats.Waiting, "waiting")
}

func collectStore(to chan<- prometheus.Metric, model string, stats store.Stats) {
	value := func(desc *prometheus.Desc, kind prometheus.ValueType, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, kind, float64(n), append([]string{model}, labels...)...)
	}
	for reason, n := range stats.Missed {
		value(figureSought, prometheus.CounterValue, int64(n), store.Reason(reason).String())
	}
	value(figureSaved, prometheus.CounterValue, stats.Cached)
	value(figureMarks, prometheus.GaugeValue, int64(stats.Marks), "memory")
	value(figureMarks, prometheus.GaugeValue, int64(stats.Objects), "bucket")
	value(figureBytes, prometheus.GaugeValue, stats.Memory, "memory")
	value(figureBytes, prometheus.GaugeValue, stats.Disk, "bucket")
	value(figureMoved, prometheus.CounterValue, int64(stats.Loads), "read")
	value(figureMoved, prometheus.CounterValue, int64(stats.Writes), "written")
	value(figureEvicts, prometheus.CounterValue, int64(stats.Lost))
}
