package serve_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
)

// writeCertificate writes a new certificate for a name and its key to a folder, and returns it and the files.
func writeCertificate(t *testing.T, dir, name string) (cert *x509.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sheet := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, sheet, sheet, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, certFile, keyFile
}

// runTLS runs a server with TLS and returns its address.
func runTLS(t *testing.T, s *serve.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l, time.Millisecond) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// tlsClient returns a client that trusts a certificate and uses HTTP/2.
func tlsClient(t *testing.T, cert *x509.Certificate) *http.Client {
	t.Helper()
	trusted := x509.NewCertPool()
	trusted.AddCert(cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestTLS checks that the server uses HTTP/2 over TLS 1.3, and refuses versions before TLS 1.2. A new certificate is
// used for new connections, while streams over old ones continue. Invalid files change nothing.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	first, certFile, keyFile := writeCertificate(t, dir, "first")
	c, err := serve.LoadCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	server, err := serve.New(serve.Options{TLS: c.Config(), MaxTokens: 1 << 30}, servetest.Model(t, "tiny"))
	if err != nil {
		t.Fatal(err)
	}
	address := runTLS(t, server)
	old := tlsClient(t, first)
	stream, err := old.Post("https://"+address+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"a","max_tokens":1000000000,"stream":true,"ignore_eos":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if stream.Proto != "HTTP/2.0" || stream.TLS.Version != tls.VersionTLS13 || stream.StatusCode != http.StatusOK {
		t.Errorf("got %s over %s, status %d", stream.Proto, tls.VersionName(stream.TLS.Version), stream.StatusCode)
	}
	// served returns the name in the certificate of a new connection.
	served := func() string {
		t.Helper()
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].DNSNames[0]
	}
	old11 := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}
	if _, err := tls.Dial("tcp", address, old11); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	writeCertificate(t, dir, "second")
	if err := c.Reload(); err != nil || served() != "second" {
		t.Errorf("after a new certificate %s is served (%v)", served(), err)
	}
	if err := os.WriteFile(certFile, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(); err == nil || !strings.Contains(err.Error(), certFile) || served() != "second" {
		t.Errorf("after a file that is none %s is served (%v)", served(), err)
	}
	if _, err := io.ReadFull(stream.Body, make([]byte, 10000)); err != nil {
		t.Errorf("the stream from before ends: %v", err)
	}
	if _, err := serve.LoadCertificate(certFile, keyFile); err == nil {
		t.Error("a file that is no certificate is loaded")
	}
}
