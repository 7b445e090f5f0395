package serve

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// otherRoute is the route of unknown paths. Labels are patterns of routes and names of existing models, so that a
// client cannot create new ones.
const otherRoute = "other"

// metrics are the Prometheus metrics of a server.
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

	// Per client, by the name of its key.
	asked *prometheus.CounterVec
	spent *prometheus.CounterVec
}

// newMetrics returns the metrics of s.
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
			return float64(s.Admission.Running() + s.Rows.Admission.Running())
		}),
		gauge("hippo_requests_waiting", "Requests that wait to run.",
			func() float64 { return float64(s.Admission.Queued() + s.Rows.Admission.Queued()) }),
		gauge("hippo_row_streams", "Streams of rows to predict from that are open.",
			func() float64 { return float64(s.Rows.Streams.Taken()) }),
		gauge("hippo_models_loaded", "Models in memory.", func() float64 { return float64(len(s.Host.Loaded())) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	for _, limit := range []string{request.LimitQueue, request.LimitRequests, request.LimitTokens} {
		m.limited.WithLabelValues(limit)
	}
	m.page = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return m
}

// Tokens returns a function that counts tokens of a kind, for a model and the key of a client, if any.
func (m *metrics) Tokens(model, client, kind string) func(n int) {
	all := m.tokens.WithLabelValues(model, kind)
	if client == "" {
		return func(n int) { all.Add(float64(n)) }
	}
	own := m.spent.WithLabelValues(client, kind)
	return func(n int) {
		all.Add(float64(n))
		own.Add(float64(n))
	}
}

// First counts the time to a first token.
func (m *metrics) First(model string, took time.Duration) {
	m.first.WithLabelValues(model).Observe(took.Seconds())
}

// Queued counts the time that a request was queued.
func (m *metrics) Queued(took time.Duration) { m.queued.Observe(took.Seconds()) }

// changed counts the loads and unloads of models.
func (m *metrics) changed(model, change string, took time.Duration) {
	m.moved.WithLabelValues(model, change).Inc()
	if change == host.ModelLoaded {
		m.loading.WithLabelValues(model).Observe(took.Seconds())
	}
}

// metricsPage responds with the metrics.
func (s *Server) metricsPage(c *request.Call) error {
	s.metrics.page.ServeHTTP(c, c.Request)
	return nil
}

// responded counts a request.
func (m *metrics) responded(c *request.Call, err error, status int, seconds float64) {
	route := c.Route
	if route == "" {
		route = otherRoute
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(seconds)
	if c.Key != "" {
		m.asked.WithLabelValues(c.Key, strconv.Itoa(status)).Inc()
	}
	if err != nil {
		if e := request.ErrorOf(err); e.Limit != "" {
			m.limited.WithLabelValues(e.Limit).Inc()
		}
	}
}

// modelFigures collects the metrics that the models count themselves.
type modelFigures struct{ s *Server }

// figure describes a metric of the models.
func figure(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"model"}, labels...), nil)
}

var (
	figureNext      = figure("hippo_next_token_seconds", "From a token to the next, drawing included.")
	figureSequences = figure("hippo_batch_sequences", "Sequences of a step of the model.")
	figureRows      = figure("hippo_batch_tokens", "Tokens that a step of the model reads.")
	figureDrafts    = figure("hippo_draft_tokens_total", "Tokens that were guessed, and of them those written.",
		"kind")
	figureServed = figure("hippo_sequences", "Sequences now: in a step, or waiting for one.", "state")
	figureSought = figure("hippo_texts_total", "Texts looked for among those stored, by why no more was found.",
		"found")
	figureSaved  = figure("hippo_text_tokens_found_total", "Tokens found stored of texts that were looked for.")
	figureMarks  = figure("hippo_stored_marks", "Places in stored texts to go on from.", "where")
	figureBytes  = figure("hippo_stored_bytes", "Of stored texts.", "where")
	figureMoved  = figure("hippo_stored_marks_total", "Marks read from the folder or bucket, and written.", "done")
	figureEvicts = figure("hippo_evictions_total", "Marks that were given up for want of room.")
	figureLarge  = figure("hippo_marks_too_large_total", "Of these, marks that are larger than the prompt cache.")
)

// Describe describes nothing: the set of metrics depends on the models.
func (modelFigures) Describe(chan<- *prometheus.Desc) {}

// Collect sends the current value of every metric.
func (f modelFigures) Collect(to chan<- prometheus.Metric) {
	for _, l := range f.s.Host.Loaded() {
		m := l.Model
		if runner, ok := m.Scheduler().(interface{ Stats() session.SchedulerStats }); ok {
			collectScheduler(to, m.Name, runner.Stats())
		}
		if m.Texts != nil {
			collectStore(to, m.Name, m.Texts.Stats())
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
	drafts := func(n int64, kind string) {
		to <- prometheus.MustNewConstMetric(figureDrafts, prometheus.CounterValue, float64(n), model, kind)
	}
	drafts(stats.Drafted, "drafted")
	drafts(stats.Accepted, "accepted")
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
	value(figureLarge, prometheus.CounterValue, int64(stats.TooLarge))
}
