package web

import (
	"bytes"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// metrics counts answers by route and class of status. The counters of a route are
// looked up once, when it is registered.
type metrics struct {
	reg     *prometheus.Registry
	answers *prometheus.CounterVec
}

// classes are the label values of status codes, from 200 on.
var classes = [...]string{"2xx", "3xx", "4xx", "5xx"}

type routeCounters [len(classes)]prometheus.Counter

func newMetrics() *metrics {
	m := &metrics{
		reg: prometheus.NewRegistry(),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "karatum_http_answers_total", Help: "Answers given, by route and class of status.",
		}, []string{"method", "route", "class"}),
	}
	m.reg.MustRegister(m.answers)
	return m
}

func (m *metrics) of(method, route string) *routeCounters {
	var rc routeCounters
	for i, class := range classes {
		rc[i] = m.answers.WithLabelValues(method, route, class)
	}
	return &rc
}

func (rc *routeCounters) count(status int) { rc[min(max(status/100-2, 0), len(rc)-1)].Inc() }

// getMetrics writes the node's and the server's metrics in Prometheus' text form.
func getMetrics(s *Server, c *fiber.Ctx) error {
	families, err := prometheus.Gatherers{s.node.Metrics(), s.metrics.reg}.Gather()
	if err != nil {
		return err
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	var buf bytes.Buffer
	enc := expfmt.NewEncoder(&buf, format)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	c.Context().Response.Header.SetContentType(string(format))
	c.Context().Response.SetBodyRaw(buf.Bytes())
	return nil
}
