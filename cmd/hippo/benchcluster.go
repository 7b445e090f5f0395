package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/bench"
	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/train/text"
)

// benchFolder is where processes of a launch find each other that measure.
const benchFolder = "runs"

// clusterFlags are the flags of the benchmark cluster alone.
var clusterFlags = []string{"network", "key", "meet", "members", "wait", "wire", "mpi"}

// benchCluster prepares what is measured of a cluster: between members in this process or, under a launcher, between
// its processes. The first measures, and end ends the others; these have followed it when led is false.
func (m *machines) benchCluster(cmd *cobra.Command, network string, opt benchOptions) (c bench.Cluster, led bool,
	end func(error) error, err error) {
	end = func(err error) error { return err }
	if network != "" {
		if c.Rate, err = text.ParseRate(network); err != nil {
			return c, false, end, fmt.Errorf("network: %w", err)
		}
	}
	m.bits = sameBits
	l, err := m.launched()
	if err != nil || l.Size < 2 {
		return c, true, end, err
	}
	if opt.Peer != "" || opt.Scaling {
		return c, false, end, fmt.Errorf("found --peer or --scaling under a launcher (%s), want none", l.By)
	}
	own, err := text.Greeting(nil, l.Rank, nil)
	if err != nil {
		return c, false, end, err
	}
	rounds := max(1, opt.Rounds)
	if l.Rank > 0 {
		wire, err := m.joins(l, benchFolder)(cmd.Context(), own)
		if err != nil {
			return c, false, end, err
		}
		return c, false, end, bench.FollowCluster(cmd.Context(), wire, l.Size, rounds, opt.Shrink)
	}
	wire, tcp, err := m.open(l, own)
	if err != nil {
		return c, false, end, err
	}
	host := bench.ClusterHost
	host.Check = func(g cluster.Greeting) error {
		if g.Version != own.Version {
			return fmt.Errorf("version: found %.40s, want %.40s", g.Version, own.Version)
		}
		return nil
	}
	c.Team, c.Members, c.Wire = cluster.NewLeader(wire, own.Name, host, time.Now), l.Size, m.wire
	others, remove, err := m.gather(cmd.Context(), l, benchFolder, c.Team, tcp)
	end = func(err error) error {
		why := cluster.Finished
		if err != nil {
			why = "the first process has ended: " + err.Error()
		}
		return errors.Join(err, c.Team.End(why), remove())
	}
	for _, g := range others {
		err = errors.Join(err, host.Check(g))
	}
	if err != nil {
		return c, false, end, end(err)
	}
	fmt.Fprintf(os.Stderr, "%d processes of %s, exchange by %s\n", l.Size, l.By, m.wire)
	return c, true, end, nil
}
