package sshlab

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/collectors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// setLink puts the slow link in front of a host whose Spec asks for one: from
// then on that is where the controller reaches it.
func (h *Host) setLink() error {
	if h.Latency == 0 && h.Rate == 0 {
		return nil
	}
	zerolog.SetGlobalLevel(zerolog.Disabled)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	server.Metrics.ProxyMetrics = collectors.NewProxyMetricCollectors()
	h.link = toxiproxy.NewProxy(server, h.Name, "127.0.0.1:0", net.JoinHostPort(h.address, strconv.Itoa(h.port)))
	if err := h.link.Start(); err != nil {
		return err
	}
	address, port, err := net.SplitHostPort(h.link.Listen)
	if err != nil {
		return err
	}
	h.Address = address
	if h.Port, err = strconv.Atoi(port); err != nil {
		return err
	}
	return h.slow(h.Latency, h.Rate)
}

// Slow changes the link of a host that was made with a Latency or a Rate: so long
// each way from now on, and so many KB/s; 0: unlimited.
func (h *Host) Slow(latency time.Duration, rate int) { h.lab.must(h.slow(latency, rate)) }

func (h *Host) slow(latency time.Duration, rate int) error {
	if h.link == nil {
		return fmt.Errorf("%s has no link that can be slow: give it a Latency", h.Name)
	}
	h.link.Toxics.ResetToxics(context.Background())
	for _, stream := range []string{"upstream", "downstream"} {
		toxics := []string{fmt.Sprintf(`{"type": "latency", "stream": %q, "attributes": {"latency": %d}}`, stream, latency.Milliseconds())}
		if rate > 0 {
			toxics = append(toxics, fmt.Sprintf(`{"type": "bandwidth", "stream": %q, "attributes": {"rate": %d}}`, stream, rate))
		}
		for _, toxic := range toxics {
			if _, err := h.link.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *Host) unlink() {
	if h.link != nil {
		h.link.Stop()
	}
}
