//go:build mpi && linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkPeer is hippo's side of bench/mpi/run, which sets a variable to "sum BYTES ROUNDS" or "swap BYTES ROUNDS".
// sum runs the steps of a team, swap only the MPI calls of two processes. Process 0 prints the milliseconds of the
// fastest round.
func BenchmarkPeer(b *testing.B) {
	do := strings.Fields(os.Getenv("PEER"))
	if len(do) != 3 {
		b.Fatal("want it to be called by bench/mpi/run")
	}
	bytes, bad := strconv.Atoi(do[1])
	rounds, bad2 := strconv.Atoi(do[2])
	l, err := Launched(os.Getenv, 0)
	if err := errors.Join(bad, bad2, err); err != nil {
		b.Fatal(err)
	}
	defer func(was int) { chunk = was }(chunk)
	chunk = 1 << 16 // as in programs
	run := sumByTeam
	if do[0] == "swap" {
		run = swap
	}
	ms, err := run(l, bytes, rounds)
	if err != nil {
		b.Fatal(err)
	}
	if l.Rank == 0 {
		fmt.Printf("fastest %.4f\n", slices.Min(ms))
	}
}

func sumByTeam(l Launch, bytes, rounds int) (ms []float64, err error) {
	const warm = 3
	wire, err := StartMPI(l, "", Greeting{Name: "peer"})
	if err != nil {
		return nil, err
	}
	if l.Rank > 0 {
		t, err := Join(context.Background(), wire, NoState, time.Now)
		if err == nil {
			_, err = ExchangeSums(context.Background(), t, l.Size, 0, bytes/4, rounds+warm+1) // the leader ends it
		}
		var ended *EndedError
		if errors.As(err, &ended) {
			err = t.Leave()
		}
		return nil, err
	}
	t := NewLeader(wire, "leader", AnyHost, time.Now)
	if _, err := t.Gather(context.Background(), l.Size-1); err != nil {
		return nil, err
	}
	took, err := ExchangeSums(context.Background(), t, l.Size, 0, bytes/4, rounds+warm)
	if err != nil {
		return nil, err
	}
	for _, s := range took[warm:] {
		ms = append(ms, 1e3*s)
	}
	return ms, t.End(Finished)
}

func swap(l Launch, bytes, rounds int) (ms []float64, err error) {
	lib, _, err := openLibrary("", l.MPI)
	if err != nil {
		return nil, err
	}
	if _, _, err = lib.start(); err != nil {
		return nil, err
	}
	mine, theirs := make([]byte, bytes), make([]byte, bytes)
	for range rounds + 3 {
		start := time.Now()
		in, err := lib.irecv(theirs, 1-l.Rank)
		if err != nil {
			return nil, err
		}
		out, err := lib.isend(mine, 1-l.Rank)
		if err != nil {
			return nil, err
		}
		for _, r := range []*mpiRequest{in, out} {
			for done := false; !done; {
				if done, err = lib.test(r); err != nil {
					return nil, err
				}
			}
		}
		ms = append(ms, 1e3*time.Since(start).Seconds())
	}
	return ms[3:], lib.finalize()
}
