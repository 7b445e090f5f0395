package watch

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics holds the Prometheus metrics of a Watcher. Labels are the names of streams, which are fixed when the program
// starts, so lines cannot create new ones.
type Metrics struct {
	registry *prometheus.Registry

	lines, bytes, bits, alarms, cut *prometheus.CounterVec
	threshold                       *prometheus.GaugeVec
	scores                          *prometheus.HistogramVec
	learnt                          *prometheus.GaugeVec
}

// NewMetrics returns metrics whose values are all 0.
func NewMetrics() *Metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"stream"})
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		lines:    counter("hippo_watch_lines_total", "Lines that were read."),
		bytes:    counter("hippo_watch_bytes_total", "Bytes of these lines."),
		bits:     counter("hippo_watch_bits_total", "Their surprise in bits: -log2 of their probability."),
		alarms:   counter("hippo_watch_alarms_total", "Lines whose score was above the threshold."),
		cut:      counter("hippo_watch_cut_bytes_total", "Bytes of long lines that were not read."),
		threshold: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hippo_watch_threshold", Help: "The score above which a line raises an alarm.",
		}, []string{"stream"}),
		scores: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hippo_watch_score", Help: "Scores of lines.", Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}, []string{"stream"}),
		learnt: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hippo_watch_rounds", Help: "Rounds of learning by how they ended, since the start.",
		}, []string{"result"}),
	}
	m.registry.MustRegister(m.lines, m.bytes, m.bits, m.alarms, m.cut, m.threshold, m.scores, m.learnt,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler returns an HTTP handler that responds with the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Count adds the reports on lines to the metrics and sets the numbers of learning rounds.
func (m *Metrics) Count(reports []Report, learnt Learnt) {
	for i := range reports {
		r := &reports[i]
		m.lines.WithLabelValues(r.Stream).Inc()
		m.bytes.WithLabelValues(r.Stream).Add(float64(r.Bytes))
		m.bits.WithLabelValues(r.Stream).Add(r.Bits)
		m.cut.WithLabelValues(r.Stream).Add(float64(r.Cut))
		alarms := m.alarms.WithLabelValues(r.Stream)
		if r.Alarm {
			alarms.Inc()
		}
		if r.Threshold != nil {
			m.threshold.WithLabelValues(r.Stream).Set(*r.Threshold)
		}
		m.scores.WithLabelValues(r.Stream).Observe(r.Score)
	}
	for result, n := range map[string]int64{"kept": learnt.Kept, "worse": learnt.Worse, "failed": learnt.Failed} {
		m.learnt.WithLabelValues(result).Set(float64(n))
	}
}
