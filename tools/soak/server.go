package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// server is a running server.
type server struct {
	cmd        *exec.Cmd
	url, admin string
	ended      chan struct{}
	log        *os.File
}

// freeAddress returns an address of this machine at which no process listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// start starts the server and waits until it is ready.
func (s *soak) start(ctx context.Context) (*server, error) {
	args := slices.Concat(s.command[1:], []string{"--listen", s.address, "--admin", s.adminAddress})
	run := &server{
		url: "http://" + s.address, admin: "http://" + s.adminAddress, ended: make(chan struct{}), log: s.log,
	}
	run.cmd = exec.Command(s.command[0], args...)
	run.cmd.Stdout, run.cmd.Stderr = s.log, s.log
	if err := run.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(run.ended)
		run.cmd.Wait() // the status does not matter
	}()
	for {
		a, err := http.Get(run.url + "/ready")
		if err == nil {
			a.Body.Close()
			if a.StatusCode == http.StatusOK {
				return run, nil
			}
		}
		select {
		case <-run.ended:
			return nil, fmt.Errorf("the server ended before it was ready: %v; see %s",
				run.cmd.ProcessState, s.log.Name())
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// kill kills the server, without any cleanup, and waits for its end.
func (r *server) kill() {
	r.cmd.Process.Kill() // fails if the server has ended
	<-r.ended
}

// stop interrupts the server, so that it ends in an orderly way, and waits for its end.
func (r *server) stop(wait time.Duration) error {
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	select {
	case <-r.ended:
	case <-time.After(wait):
		r.kill()
		return errors.New("the server did not end in time after a signal")
	}
	if !r.cmd.ProcessState.Success() {
		return fmt.Errorf("the server ended with %v after a signal", r.cmd.ProcessState)
	}
	return nil
}

// figures reads the server's metrics. It sums each metric over its labels.
func (r *server) figures() (map[string]float64, error) {
	a, err := http.Get(r.admin + "/metrics")
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics has status %d", a.StatusCode)
	}
	all := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(a.Body, 8<<20))
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if x, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			all[name] += x
		}
	}
	return all, lines.Err()
}
