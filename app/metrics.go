package app

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"karatum/store"
)

// metrics counts both outcomes of everything that can fail. Labels come from
// closed sets: codes, states and job names.
type metrics struct {
	reg      *prometheus.Registry
	batches  *prometheus.CounterVec
	refusals *prometheus.CounterVec
	verdicts *prometheus.CounterVec
	epochs   *prometheus.CounterVec
	runs     *prometheus.HistogramVec
	lastGood *prometheus.GaugeVec
}

func newMetrics(s *store.Store) *metrics {
	m := &metrics{
		reg:      prometheus.NewRegistry(),
		batches:  counter("karatum_batches_total", "Batches taken in, by how they continue their stream.", "continuity"),
		refusals: counter("karatum_refusals_total", "Requests refused, by error code.", "code"),
		verdicts: counter("karatum_verdicts_total", "Verdicts reached, by state.", "state"),
		epochs:   counter("karatum_epochs_total", "Epochs that reached a state.", "state"),
		runs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "karatum_job_seconds", Help: "Duration of the crons' runs, by job and outcome.",
			Buckets: []float64{0.01, 0.1, 1, 10, 60, 300},
		}, []string{"job", "outcome"}),
		lastGood: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "karatum_job_last_success_timestamp_seconds", Help: "When each job last ended well.",
		}, []string{"job"}),
	}
	m.reg.MustRegister(m.batches, m.refusals, m.verdicts, m.epochs, m.runs, m.lastGood,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for name, read := range map[string]func(store.Stats) float64{
		"karatum_database_bytes": func(s store.Stats) float64 { return float64(s.FileBytes) },
		"karatum_wal_bytes":      func(s store.Stats) float64 { return float64(s.WALBytes) },
		"karatum_write_queue":    func(s store.Stats) float64 { return float64(s.Queue) },
	} {
		m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: "Of the store, as it stands."},
			func() float64 { return read(s.Stats()) }))
	}
	return m
}

func counter(name, help, label string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
}

// Metrics returns what /metrics serves.
func (a *App) Metrics() prometheus.Gatherer { return a.metrics.reg }

func (m *metrics) ingested(ans IngestAnswer) {
	how := ans.Continuity
	if ans.Duplicate {
		how = "duplicate"
	}
	m.batches.WithLabelValues(how).Inc()
}

// refused counts an error by its code and returns it.
func (m *metrics) refused(err error) error {
	if err == nil {
		return nil
	}
	code := "INTERNAL"
	var e *Error
	if errors.As(err, &e) {
		code = e.Code
	}
	m.refusals.WithLabelValues(code).Inc()
	return err
}

func (m *metrics) ran(job string, start, end time.Time, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	} else {
		m.lastGood.WithLabelValues(job).Set(float64(end.Unix()))
	}
	m.runs.WithLabelValues(job, result).Observe(end.Sub(start).Seconds())
}
