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

// benchFolder is the folder in which the processes of a launch find each other.
const benchFolder = "runs"

// clusterFlags lists the flags that only the benchmark cluster has.
var clusterFlags = []string{"network", "key", "meet", "members", "wait", "wire", "mpi"}

// benchCluster measures a cluster. Without a launcher, its members run in this process. With a launcher, they are the
// launcher's processes: the first one measures, and then ends the others.
func (m *machines) benchCluster(cmd *cobra.Command, network string, opt benchOptions, cases []bench.Case,
	measure func([]bench.Case, bench.Cluster) error) (err error) {
	var c bench.Cluster
	if network != "" {
		if c.Rate, err = text.ParseRate(network); err != nil {
			return fmt.Errorf("network: %w", err)
		}
	}
	m.bits = sameBits
	l, err := m.launched()
	if err != nil {
		return err
	}
	if l.Size < 2 {
		return measure(cases, c)
	}
	if opt.Peer != "" || opt.Scaling {
		return fmt.Errorf("found --peer or --scaling under a launcher (%s), want none", l.By)
	}
	if cases, err = bench.OfLaunch(cases); err != nil {
		return err
	}
	own, err := text.Greeting(nil, l.Rank, nil)
	if err != nil {
		return err
	}
	if l.Rank > 0 {
		wire, err := m.joins(l, benchFolder)(cmd.Context(), own)
		if err != nil {
			return err
		}
		return bench.FollowCluster(cmd.Context(), wire, l.Size, max(1, opt.Rounds), opt.Shrink, cases)
	}
	wire, tcp, err := m.open(l, own)
	if err != nil {
		return err
	}
	host := cluster.AnyHost
	host.Check = func(g cluster.Greeting) error {
		if g.Version != own.Version {
			return fmt.Errorf("version: found %.40s, want %.40s", g.Version, own.Version)
		}
		return nil
	}
	c.Team, c.Members, c.Wire = cluster.NewLeader(wire, own.Name, host, time.Now), l.Size, m.wire
	others, remove, err := m.gather(cmd.Context(), l, benchFolder, c.Team, tcp)
	for _, g := range others {
		err = errors.Join(err, host.Check(g))
	}
	if err == nil {
		fmt.Fprintf(os.Stderr, "%d processes of %s, exchange by %s\n", l.Size, l.By, m.wire)
		err = measure(cases, c)
	}
	why := cluster.Finished
	if err != nil {
		why = "the first process has ended: " + err.Error()
	}
	return errors.Join(err, c.Team.End(why), remove())
}
