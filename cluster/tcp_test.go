package cluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// listen starts a leader's wire and returns it and the address to dial.
func listen(t *testing.T) (wire *TCP, address string) {
	t.Helper()
	wire, err := Listen("127.0.0.1:0", NewKey())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wire.Close() })
	return wire, wire.Address().String()
}

// TestTCP checks that three members connected by TCP get the same weights as a single member, although one of them
// closes its connections in a step.
func TestTCP(t *testing.T) {
	const size, shards, steps = 1000, 7, 6
	want, _ := alone(t, size, shards, steps)
	wire, address := listen(t)
	w := newToy(size, shards)
	var notes []string
	team := lead(wire, w, func(text string) { notes = append(notes, text) })
	var members sync.WaitGroup
	var wires []*TCP
	for i := range 3 {
		m, err := Dial(t.Context(), []string{address}, wire.Key(), Greeting{Name: fmt.Sprintf("m%d", i), Cores: 2})
		if err != nil {
			t.Fatal(err)
		}
		wires = append(wires, m)
		members.Go(func() {
			got, err := follow(m, size, shards, steps)
			if i == 1 {
				if err == nil {
					t.Error("a member whose connections were closed saw the end")
				}
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			sameWeights(t, fmt.Sprintf("m%d", i), got.weights, want.weights)
		})
	}
	if _, err := team.Gather(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	w.fails = func(step, shard int) (Result, error) {
		if step == 3 && shard == 0 {
			wires[1].mu.Lock()
			for _, l := range wires[1].links {
				l.conn.NetConn().Close()
			}
			wires[1].mu.Unlock()
			time.Sleep(50 * time.Millisecond)
		}
		return Result{}, nil
	}
	wantLeader(t, team, w, steps, want)
	members.Wait()
	all := strings.Join(notes, "\n")
	if !strings.Contains(all, "+ m0 (2 cores) from step 1") || strings.Count(all, "gone at step") != 1 ||
		!strings.Contains(all, "- m1 gone at step 4 (") {
		t.Errorf("the notes are\n%s", all)
	}
}

// TestKeys checks that neither end accepts another without the key, and that a man in the middle cannot pass on their
// messages.
func TestKeys(t *testing.T) {
	wire, address := listen(t)
	_, err := Dial(t.Context(), []string{address}, NewKey(), Greeting{})
	if !errors.Is(err, ErrKey) || !strings.HasPrefix(err.Error(), address+": ") {
		t.Errorf("a member with another key: %v", err)
	}
	if _, err := Listen("127.0.0.1:0", "7rk2-m9fx"); err == nil {
		t.Error("a short key was taken")
	}

	// The man in the middle: what one end of each connection sends goes to the other.
	own, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own},
		NextProtos: []string{joinProtocol}, ClientAuth: tls.RequireAnyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := tls.Dial("tcp", address, &tls.Config{Certificates: []tls.Certificate{own}, InsecureSkipVerify: true,
			NextProtos: []string{joinProtocol}})
		if err != nil {
			return
		}
		defer out.Close()
		go io.Copy(in, out)
		io.Copy(out, in)
	}()
	if _, err := Dial(t.Context(), []string{l.Addr().String()}, wire.Key(), Greeting{}); !errors.Is(err, ErrKey) {
		t.Errorf("through one in the middle: %v", err)
	}
	if m, ok := wire.Poll(); ok {
		t.Errorf("the leader has let in %v", m)
	}
}

// TestHostileFrames checks that invalid lengths in a frame are refused before memory is allocated, and that frames cut
// short end with the connection.
func TestHostileFrames(t *testing.T) {
	frame := func(kind byte, body, values uint32, rest ...byte) []byte {
		b := make([]byte, headSize)
		b[0] = kind
		binary.LittleEndian.PutUint32(b[24:], body)
		binary.LittleEndian.PutUint32(b[28:], values)
		return append(b, rest...)
	}
	for name, b := range map[string][]byte{
		"nothing": {}, "half a head": make([]byte, 7), "kind 0": frame(0, 0, 0), "kind 200": frame(200, 0, 0),
		"a long body":    frame(byte(Rows), 1<<31, 0),
		"many values":    frame(byte(Part), 0, uint32(chunk)+1),
		"all values":     frame(byte(Part), 0, 1<<32-1),
		"a cut body":     frame(byte(Rows), 100, 0, 1, 2, 3),
		"a cut value":    frame(byte(Part), 0, 2, 1, 2, 3, 4, 5),
		"a greater body": frame(byte(Hello), maxBefore+1, 0),
	} {
		most := maxBody
		if name == "a greater body" {
			most = maxBefore
		}
		if m, err := readFrame(bufio.NewReader(bytes.NewReader(b)), most); err == nil {
			t.Errorf("%s: found %v, want an error", name, m)
		}
	}
	want := Message{Kind: Part, Round: 1 << 40, Node: 7, At: 1 << 35, Body: []byte("x"), Values: []float32{1, -2}}
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	if err := errors.Join(writeFrame(w, want), w.Flush()); err != nil {
		t.Fatal(err)
	}
	got, err := readFrame(bufio.NewReader(&b), maxBody)
	if err != nil || got.Round != want.Round || got.Node != want.Node || got.At != want.At ||
		string(got.Body) != "x" || !slices.Equal(got.Values, want.Values) {
		t.Errorf("found %v, %v, want %v", got, err, want)
	}
}

// TestSilence checks that a member that is connected but sends nothing is dropped after the leader's patience. A member
// that computes is not dropped, as its wire sends heartbeats.
func TestSilence(t *testing.T) {
	wire, address := listen(t)
	quick, err := Dial(t.Context(), []string{address}, wire.Key(), Greeting{})
	if err != nil {
		t.Fatal(err)
	}
	defer quick.Close()
	if m, err := wire.Receive(t.Context()); err != nil || m.Kind != Hello {
		t.Fatal(m, err)
	}
	wire.mu.Lock()
	wire.links[1].heard.Store(time.Now().Add(-time.Hour).UnixNano())
	wire.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if m, err := wire.Receive(ctx); err != nil || m.Kind != Gone || !strings.HasPrefix(string(m.Body), "silent for ") {
		t.Errorf("found %v %q, %v, want the silent one gone", m, m.Body, err)
	}
	if m, err := quick.Receive(ctx); err != nil || m.Kind != Gone || m.From != Lead {
		t.Errorf("found %v, %v, want the leader gone", m, err)
	}
}

// TestOutsiders checks that a connection without a certificate, or with one that no member has, is refused everywhere.
func TestOutsiders(t *testing.T) {
	wire, address := listen(t)
	m, err := Dial(t.Context(), []string{address}, wire.Key(), Greeting{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, port, _ := net.SplitHostPort(m.Address().String())
	own, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	m.Know([]Member{{ID: 0}, {ID: 1}, {ID: 2, Print: []byte("another's")}})
	for _, certs := range [][]tls.Certificate{nil, {own}} {
		c, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{Certificates: certs, InsecureSkipVerify: true,
			NextProtos: []string{peerProtocol}})
		if err != nil {
			continue
		}
		c.SetDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("with %d certificates: found %d bytes, %v", len(certs), n, err)
		}
		c.Close()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.links[2] == nil || m.links[2].conn != nil {
		t.Error("an outsider took a member's place")
	}
}
