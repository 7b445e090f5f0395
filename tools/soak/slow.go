package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

// slowest is the maximum time after which the server must disconnect a client that sends almost nothing. The server's
// timeouts are 10 seconds for the headers of a request, and 30 seconds for its body.
const slowest = 45 * time.Second

// mostSlow is the maximum number of such clients at a time.
const mostSlow = 6

// slow sends a request one byte at a time, and records the result: a status, or the end of the connection.
func (s *soak) slow(ctx context.Context, r *rand.Rand) {
	defer s.slowing.Add(-1)
	if s.slowing.Add(1) > mostSlow { // slow clients take long, and other requests must be sent, too
		return
	}
	run, since := s.life()
	c, err := net.DialTimeout("tcp", s.address, time.Second)
	if err != nil {
		return
	}
	defer c.Close()
	what, head := "headers that never end", "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Long: "
	if r.IntN(2) == 0 {
		what = "a body of a byte now and then"
		head = strings.TrimSuffix(head, "X-Long: ") + "Content-Length: 1000\r\n\r\n{"
	}
	answer := make(chan string, 1)
	go func() {
		line, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			answer <- "the end of the connection"
			return
		}
		line.Body.Close()
		answer <- fmt.Sprint("status ", line.StatusCode)
	}()
	fmt.Fprint(c, head)
	for begun := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case got := <-answer:
			if now, at := s.life(); run != nil && now == run && at.Equal(since) { // otherwise the server was killed
				s.did(what + ": " + got)
			}
			return
		case <-time.After(300 * time.Millisecond):
			fmt.Fprint(c, "a")
		}
		if time.Since(begun) > slowest {
			s.problem("%s: the server has waited for %v", what, slowest)
			return
		}
	}
}
