package cluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// TCP is a Wire that uses TLS 1.3 connections, to the leader and between any two members. A member and the leader prove
// to each other that they have the join key. The leader tells members each other's certificates.
type TCP struct {
	id       ID
	key      string
	host     string // of the leader, as this member dialed it
	cert     tls.Certificate
	print    []byte
	listener net.Listener
	box      mailbox
	writers  sync.WaitGroup

	mu       sync.Mutex
	links    map[ID]*link
	known    map[ID]Member
	changed  chan struct{} // closed when known changes
	ids      ID            // next ID to give to a member
	patience time.Duration
	closed   chan struct{}
}

var _ Wire = (*TCP)(nil)

// The protocols of a connection: from a member to the leader, and to another member. The number is the version.
const (
	joinProtocol = "hippo-join/1"
	peerProtocol = "hippo-peer/1"
)

const (
	handshakeTime = 10 * time.Second
	maxHandshakes = 16               // in progress at the same time
	failTime      = time.Second      // delay after a failed one, so that few keys can be tried
	pingEvery     = 2 * time.Second  // interval of heartbeats while the queue is empty
	flushTime     = 5 * time.Second  // time to send the queue of a connection that closes
	queueLimit    = 4 << 20          // queued bytes from which Ready waits
	dialTime      = 10 * time.Second // to connect to an address
)

// Listen starts the wire of a leader.
func Listen(address, key string) (*TCP, error) {
	if len(key) < leastKey {
		return nil, fmt.Errorf("key: found %d characters, want at least %d random ones", len(key), leastKey)
	}
	t, err := newTCP(address, key)
	if err != nil {
		return nil, err
	}
	go t.accept()
	go t.watch()
	return t, nil
}

func newTCP(address, key string) (*TCP, error) {
	cert, err := certificate()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err // the error names the address
	}
	sum := sha256.Sum256(cert.Certificate[0])
	t := &TCP{key: key, cert: cert, print: sum[:], listener: l, links: map[ID]*link{}, known: map[ID]Member{},
		changed: make(chan struct{}), ids: Lead + 1, patience: leastPatience, closed: make(chan struct{})}
	t.box.init()
	return t, nil
}

// Address returns the address on which the wire listens.
func (t *TCP) Address() net.Addr { return t.listener.Addr() }

// Key returns the join key.
func (t *TCP) Key() string { return t.key }

// Dial joins the leader at the first address that answers, and greets it.
func Dial(ctx context.Context, addresses []string, key string, g Greeting) (*TCP, error) {
	t, err := newTCP(":0", key)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(t.Address().String())
	if err != nil {
		return nil, errors.Join(err, t.listener.Close())
	}
	g.Address, g.Print = ":"+port, t.print
	for _, address := range addresses {
		var conn *tls.Conn
		if conn, err = t.join(ctx, address, g); err == nil {
			t.host, _, _ = net.SplitHostPort(address)
			t.mu.Lock()
			t.connect(t.link(Lead), conn)
			t.mu.Unlock()
			go t.accept()
			go t.watch()
			return t, nil
		}
		err = fmt.Errorf("%s: %w", address, err)
	}
	return nil, errors.Join(err, t.listener.Close())
}

// join connects to the leader at an address, proves that it has the key, sends the greeting and stores the member's ID.
func (t *TCP) join(ctx context.Context, address string, g Greeting) (*tls.Conn, error) {
	conn, err := t.dial(ctx, address, joinProtocol, nil)
	if err != nil {
		return nil, err
	}
	err = conn.SetDeadline(time.Now().Add(handshakeTime))
	if err == nil {
		err = prove(conn, conn.ConnectionState(), t.key, "member", "leader")
	}
	var m Message
	if err == nil {
		w := bufio.NewWriter(conn)
		err = errors.Join(writeFrame(w, Message{Kind: Hello, Body: asJSON(g)}), w.Flush())
	}
	if err == nil {
		m, err = readFrame(bufio.NewReaderSize(conn, headSize), 0)
	}
	if err == nil && (m.Kind != Hello || m.Node < 1) {
		err = fmt.Errorf("found the member %d, want 1 or more", m.Node)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		conn.Close() // the connection is of no use
		return nil, err
	}
	t.id = ID(m.Node)
	return conn, nil
}

// dial connects to an address. print is the SHA-256 of the certificate that it expects there, or nil for any.
func (t *TCP) dial(ctx context.Context, address, protocol string, print []byte) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{t.cert}, NextProtos: []string{protocol},
		InsecureSkipVerify: true, // the key or print identifies the other end
		VerifyConnection: func(s tls.ConnectionState) error {
			got, err := fingerprint(s)
			if err == nil && print != nil && !bytes.Equal(got, print) {
				err = errors.New("found the certificate of another")
			}
			return err
		},
	}}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return c.(*tls.Conn), nil
}

// accept accepts connections until Close.
func (t *TCP) accept() {
	protocol := peerProtocol
	if t.id == Lead {
		protocol = joinProtocol
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{t.cert},
		NextProtos: []string{protocol}, ClientAuth: tls.RequireAnyClientCert}
	room := make(chan struct{}, maxHandshakes)
	for {
		c, err := t.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(pingEvery) // for example too many open files
			continue
		}
		room <- struct{}{}
		go func() {
			defer func() { <-room }()
			conn := tls.Server(c, config)
			if err := t.greet(conn); err != nil {
				time.Sleep(failTime)
				conn.Close()
			}
		}()
	}
}

// greet finds out who has connected, and completes the connection. A leader gives a new member its ID.
func (t *TCP) greet(conn *tls.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	if err := conn.Handshake(); err != nil {
		return err
	}
	s := conn.ConnectionState()
	print, err := fingerprint(s)
	if err != nil {
		return err
	}
	if t.id != Lead {
		id, err := t.whoHas(print)
		if err != nil {
			return err
		}
		return t.settle(conn, id)
	}
	if err := prove(conn, s, t.key, "leader", "member"); err != nil {
		return err
	}
	m, err := readFrame(bufio.NewReaderSize(conn, headSize), maxBefore)
	if err != nil {
		return err
	}
	var g Greeting
	if err := json.Unmarshal(m.Body, &g); err != nil || m.Kind != Hello {
		return fmt.Errorf("greeting: found a message of kind %d: %v", m.Kind, err)
	}
	g.Print, g.Address = print, reached(conn.RemoteAddr(), g.Address)
	t.mu.Lock()
	id := t.ids
	t.ids++
	t.link(id)
	t.mu.Unlock()
	t.Send(id, Message{Kind: Hello, Node: int(id)}) // before other messages of the leader
	t.box.put(Message{From: id, Kind: Hello, Body: asJSON(g)})
	return t.settle(conn, id)
}

// reached returns the address of a member: the host from which it has connected and the port on which it listens. The
// host is empty if the member is on the leader's machine.
func reached(from net.Addr, address string) string {
	_, port, err := net.SplitHostPort(address)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		return ""
	}
	host, _, err := net.SplitHostPort(from.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsLoopback() {
		host = ""
	}
	return net.JoinHostPort(host, port)
}

// whoHas returns the member with a certificate. It waits until the leader has named that member.
func (t *TCP) whoHas(print []byte) (ID, error) {
	late := time.After(handshakeTime)
	for {
		t.mu.Lock()
		changed := t.changed
		for id, m := range t.known {
			if bytes.Equal(m.Print, print) {
				t.mu.Unlock()
				return id, nil
			}
		}
		t.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			return 0, errors.New("found the certificate of no member")
		case <-t.closed:
			return 0, net.ErrClosed
		}
	}
}

// settle sets the connection of a member's link.
func (t *TCP) settle(conn *tls.Conn, id ID) error {
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.links[id]
	if l == nil || l.conn != nil {
		return fmt.Errorf("found a connection of member %d, want none", id)
	}
	t.connect(l, conn)
	return nil
}

// Know disconnects everyone who is not a member, and connects to the members that joined before this one. At a leader
// it disconnects nobody.
func (t *TCP) Know(members []Member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := map[ID]Member{}
	for _, m := range members {
		if m.ID == t.id {
			continue
		}
		known[m.ID] = m
		if t.links[m.ID] == nil && m.ID != Lead && t.id != Lead {
			t.link(m.ID)
			if m.ID < t.id {
				go t.reach(m)
			}
		}
	}
	for id := range t.links {
		if _, ok := known[id]; !ok && id != Lead && t.id != Lead { // a leader also has links to those who wait
			t.drop(id, "the leader has dropped it")
		}
	}
	t.known = known
	close(t.changed)
	t.changed = make(chan struct{})
}

// reach connects to another member.
func (t *TCP) reach(m Member) {
	host, port, err := net.SplitHostPort(m.Address)
	if err == nil {
		if host == "" {
			host = t.host
		}
		var conn *tls.Conn
		if conn, err = t.dial(context.Background(), net.JoinHostPort(host, port), peerProtocol, m.Print); err == nil {
			if err = t.settle(conn, m.ID); err != nil {
				conn.Close() // the member is dropped by now
			}
			return
		}
	}
	t.Drop(m.ID, fmt.Sprintf("%s: %v", net.JoinHostPort(host, port), err))
}

// Self returns the member's ID.
func (t *TCP) Self() ID { return t.id }

// Receive returns the next message.
func (t *TCP) Receive(ctx context.Context) (Message, error) { return t.box.take(ctx) }

// Poll returns the next message if there is one, without waiting.
func (t *TCP) Poll() (Message, bool) { return t.box.poll() }

// Patience sets how long another member may be silent.
func (t *TCP) Patience(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.patience = d
}

// watch drops members that are silent for too long.
func (t *TCP) watch() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-t.closed:
			return
		case <-tick.C:
		}
		t.mu.Lock()
		for id, l := range t.links {
			if silent := time.Since(time.Unix(0, l.heard.Load())); l.conn != nil && silent > t.patience {
				t.drop(id, fmt.Sprintf("silent for %.0f s", silent.Seconds()))
			}
		}
		t.mu.Unlock()
	}
}

// Close sends the queued messages, for some seconds at most, and closes all connections.
func (t *TCP) Close() error {
	t.mu.Lock()
	select {
	case <-t.closed:
		t.mu.Unlock()
		return nil
	default:
	}
	close(t.closed)
	for id := range t.links {
		t.drop(id, "this member has ended")
	}
	t.mu.Unlock()
	err := t.listener.Close()
	t.writers.Wait()
	t.box.close(net.ErrClosed)
	return err
}
