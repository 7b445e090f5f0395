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

// flat is a step without computation: what is left of its time is the exchange.
type flat struct{ toy }

func (w *flat) Rows(int, bool) [][]byte                       { return nil }
func (w *flat) Take(int, []byte) error                        { return nil }
func (w *flat) Compute(int, func(lo, hi int)) (Result, error) { return Result{1, 1}, nil }

func (w *flat) Values(_ Node, at int, dst []float32) { copy(dst, w.weights[at:]) }

// BenchmarkPeer is hippo's side of bench/mpi/run, which says what to do by a variable: "sum BYTES ROUNDS" in steps of a
// team, or "swap BYTES ROUNDS" by the calls alone, of two processes of MPI. Process 0 prints the milliseconds of the
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
	var wire Wire
	if wire, err = StartMPI(l, "", Greeting{Name: "peer"}); err != nil {
		return nil, err
	}
	w := &flat{*newToy(bytes/4, 2)}
	sum := make([]float32, bytes/4)
	if l.Rank > 0 {
		t, err := Join(context.Background(), wire, func(_ []byte, n int) ([]float32, error) {
			return make([]float32, n), nil
		}, time.Now)
		for step := 0; err == nil; step++ {
			_, err = t.Step(context.Background(), step, 2, 1, w, sum)
		}
		var ended *EndedError
		if errors.As(err, &ended) {
			err = t.Leave()
		}
		return nil, err
	}
	t := lead(wire, &w.toy, func(string) {})
	if _, err := t.Gather(context.Background(), 1); err != nil {
		return nil, err
	}
	for step := range rounds + 3 {
		start := time.Now()
		if _, err := t.Step(context.Background(), step, 2, 1, w, sum); err != nil {
			return nil, err
		}
		ms = append(ms, 1e3*time.Since(start).Seconds())
	}
	return ms[3:], t.End(Finished)
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
