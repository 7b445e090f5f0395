package bench

import (
	"context"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/cluster"
)

// TestOfLaunch checks that the processes of a launch exchange only the chosen sizes.
func TestOfLaunch(t *testing.T) {
	const shrink, rounds = 64, 2
	chosen := func(only ...string) ([]Case, error) {
		cases, err := Cases("cluster", nil, "", shrink)
		if err == nil {
			cases, err = Only(cases, only)
		}
		if err != nil {
			t.Fatal(err)
		}
		return OfLaunch(cases)
	}
	if _, err := chosen("mode=updates"); err == nil || !strings.Contains(err.Error(), "found no exchange") {
		t.Errorf("updates alone: %v", err)
	}
	cases, err := chosen("bytes=4096", "65536")
	if err != nil || len(cases) != 2 {
		t.Fatalf("found %d cases, %v, want two", len(cases), err)
	}
	team, end, err := cluster.Loopback(t.Context(), 2, cluster.AnyHost, func(w cluster.Wire) error {
		return FollowCluster(context.Background(), w, 2, rounds, shrink, cases)
	})
	if err != nil {
		t.Fatal(err)
	}
	of := Cluster{Team: team, Members: 2, Wire: "tcp", Rate: 1e9}
	rows, _, err := Run(t.Context(), cases, Options{Rounds: rounds, Seconds: 0.01, Cluster: of, Measured: func(Row) {}})
	if err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v, want two", len(rows), err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}
