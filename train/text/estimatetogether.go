package text

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/train"
)

// Together is the time and memory that a run will need on several machines like this one, connected by a network. The
// time of a step is that of the shards of the machine with the most, of the part of the exchange that does not overlap
// with them, and of the exchange's processor time. The exchange begins during the last shard, see hidden. With islands
// a step includes its share of a round's meeting and of sending states for checkpoints.
type Together struct {
	Machines     int     `json:"machines"`
	Network      string  `json:"network"`
	Shards       int     `json:"shards"`            // of one machine, at most
	Islands      int     `json:"islands,omitempty"` // of one machine, at most
	Every        int     `json:"every,omitempty"`   // steps between two meetings
	Sent         float64 `json:"sent_bytes"`
	TokensPerSec float64 `json:"tokens_per_s"`
	Of           float64 `json:"share"` // relative to all machines computing alone
	StepSeconds  float64 `json:"step_s"`
	Exchange     float64 `json:"exchange_share"` // share of the time
	RunSeconds   float64 `json:"run_s"`          // without evaluations
	Memory       int     `json:"memory_bytes"`   // of a machine
}

// ParseRate parses the speed of a network, such as 1Gbit, 100Mbit or 2.5Gbit/s, and returns it in bytes per second.
func ParseRate(text string) (bytes float64, err error) {
	speed := strings.TrimSuffix(strings.ToLower(text), "/s")
	number := strings.TrimRight(speed, "bitpskmg")
	scale, known := map[string]float64{"kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "kbps": 1e3, "mbps": 1e6,
		"gbps": 1e9}[speed[len(number):]]
	bits, wrong := strconv.ParseFloat(number, 64)
	if !known || wrong != nil || !(bits > 0) || bits > 1e6 {
		return 0, fmt.Errorf("found the network %.40q, want a speed such as 1Gbit, 100Mbit or 2.5Gbit", text)
	}
	return bits * scale / 8, nil
}

// Together predicts how an estimated run performs on several machines.
func (c *Config) Together(e Estimate, machines int, network string) (Together, error) {
	t := Together{Machines: machines, Network: network}
	rate, err := ParseRate(network)
	parts, setting := c.Train.Parts()
	switch {
	case err != nil:
		return t, fmt.Errorf("network: %w", err)
	case machines < 1 || machines > parts:
		return t, fmt.Errorf("machines: found %d, want 1 to %d, as many as %s", machines, parts, setting)
	}
	islands := c.Train.plan()
	most, traffic := cluster.Volume(parts, machines, cmp.Or(islands.Bits, 32))
	gradient, n := 4*float64(e.Trained), float64(machines)
	const idBytes = 8 // per token that the leader sends
	t.Shards, t.Sent = most, traffic*gradient
	if c.Train.Moments == momentsSplit && machines > 2 { // weights, to all machines that do not have the moments
		t.Sent += (n - 2) / n * gradient
	}
	if islands.N > 0 {
		t.Islands, t.Every, t.Shards = most, islands.Every, most*c.Train.Shards/islands.N
		others := islands.N - islands.N/machines // they send their states to the leader for checkpoints
		t.Sent = t.Sent/float64(islands.Every) +
			float64(others*islands.StateBytes(e.Trained))/float64(islands.Saves(c.Train.SaveEvery))
	}
	rate *= payload
	exchange := t.Sent / rate
	exchange -= c.hidden(e, traffic*gradient/rate)
	exchange += idBytes * float64(c.Train.tokensPerStep()) * (n - 1) / n / rate
	exchange += t.Sent * e.PerByte
	t.StepSeconds = e.StepSeconds*float64(most)/float64(parts) + exchange
	t.Exchange = exchange / t.StepSeconds
	t.TokensPerSec = float64(c.Train.tokensPerStep()) / t.StepSeconds
	t.Of = e.StepSeconds / n / t.StepSeconds
	t.RunSeconds = e.RunSeconds
	if c.Train.Time == 0 {
		t.RunSeconds *= t.StepSeconds / e.StepSeconds
	}
	t.Memory = e.Total - c.Train.spared(e.Trained, machines)
	if islands.N > 0 && machines > 1 {
		t.Memory += c.Train.islandBytes(e.Trained, true) - c.Train.islandBytes(e.Trained, false)
	}
	if machines > 1 { // fewer sums of shards, but also the whole sum and the parts of this machine's range
		t.Memory += 4 * e.Trained * (train.SumsOf(most) + 2 - train.SumsOf(c.Train.Shards))
	}
	return t, nil
}

// MeasureExchange measures the processor time that an exchange takes on this machine, for Together.
func (e *Estimate) MeasureExchange(ctx context.Context) error {
	cost, err := cluster.ExchangeCost(ctx, status.CPUTime)
	e.PerByte = cost / float64(runtime.GOMAXPROCS(0))
	return err
}

// payload is the share of a packet that is data, with TCP over Ethernet: 1448 of 1514 bytes.
const payload = 1448. / 1514

// hidden returns how many seconds of an exchange overlap with the last shard. That is at most the time of its backward
// pass, two thirds of the shard, and excludes the embedding, whose gradient is final only at the end.
func (c *Config) hidden(e Estimate, exchange float64) float64 {
	if c.Train.Islands > 0 || c.Train.Recompute || c.Train.held() < c.Train.SeqLen || e.Trained == 0 {
		return 0
	}
	backward := e.StepSeconds / float64(c.Train.Shards) * 2 / 3
	early := 1 - float64(min(e.Embedding, e.Trained))/float64(e.Trained)
	return min(backward, early*exchange)
}

// String formats the prediction as text of several lines.
func (t Together) String() string {
	most := fmt.Sprintf("%d shards each", t.Shards)
	if t.Islands > 0 {
		most = fmt.Sprintf("%d islands each, which meet every %d steps", t.Islands, t.Every)
	}
	return fmt.Sprintf(`together     %d machines like this one at %s, at most %s
             %.0f tokens/s (%.2f of all alone)
             %.3g s a step, of it exchange %.0f %%: each sends %s; the run takes %s
             memory of each %s
`, t.Machines, t.Network, most, t.TokensPerSec, t.Of, t.StepSeconds, 100*t.Exchange, status.Bytes(int64(t.Sent)),
		longTime(t.RunSeconds), status.Bytes(t.Memory))
}
