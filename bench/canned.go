package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// cannedEvent is an event in the form in which the server sends it.
const cannedEvent = `data: {"id":"cmpl-ABCDEFGHIJKLMNOPQRSTUVWXYZ","object":"text_completion","created":1790000000,` +
	`"model":"m","choices":[{"text":" 12345","index":0,"logprobs":null,"finish_reason":null}]}` + "\n\n"

// between is the time between the events of a stream: a client has read one event before the next arrives.
const between = 2 * time.Millisecond

// canned is a server that does next to nothing: it sends prepared events to the requests of some clients, one event to
// each client in turn. So a measurement has the time of the clients, and the kernel's time for sending.
type canned struct {
	site
	listener net.Listener
	calls    chan *cannedCall
	closed   chan struct{}
	all      sync.WaitGroup
}

// cannedCall is a request that waits for its events.
type cannedCall struct {
	to   net.Conn
	done chan error
}

// newCanned serves n clients at a time, with the given number of events for each.
func newCanned(ctx context.Context, n, events int) (*canned, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &canned{listener: l, calls: make(chan *cannedCall), closed: make(chan struct{})}
	c.url = "http://" + l.Addr().String()
	c.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	c.all.Go(func() {
		defer close(c.calls)
		var conns sync.WaitGroup
		defer conns.Wait()
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { c.serve(conn) })
		}
	})
	c.all.Go(func() { c.send(n, events) })
	return c, nil
}

// serve reads the requests of a client and queues them for send.
func (c *canned) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		r, err := http.ReadRequest(in)
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		if err != nil { // the client has gone
			return
		}
		call := &cannedCall{conn, make(chan error, 1)}
		select {
		case c.calls <- call:
		case <-c.closed:
			return
		}
		select {
		case err = <-call.done:
		case <-c.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// send responds to n requests at a time.
func (c *canned) send(n, events int) {
	chunk := func(text string) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(text), text) }
	event, last := chunk(cannedEvent), append(chunk("data: [DONE]\n\n"), chunk("")...)
	begin := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	for {
		var calls []*cannedCall
		for len(calls) < n {
			call, ok := <-c.calls
			if !ok {
				return
			}
			calls = append(calls, call)
		}
		errs := make([]error, n)
		each := func(data []byte) {
			for i, call := range calls {
				_, err := call.to.Write(data)
				errs[i] = errors.Join(errs[i], err)
			}
		}
		each(begin)
		for range events {
			each(event)
			time.Sleep(between)
		}
		each(last)
		for i, call := range calls {
			call.done <- errs[i]
		}
	}
}

func (c *canned) close() {
	c.client.CloseIdleConnections() // so that serve does not wait for further requests
	close(c.closed)
	c.listener.Close()
	c.all.Wait()
}
