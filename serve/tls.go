package serve

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
)

// Certificate is a server's certificate from two files, which can be read again while the server runs.
type Certificate struct {
	certFile, keyFile string
	now               atomic.Pointer[tls.Certificate]
}

// LoadCertificate reads a chain of certificates and the key of the first, both in PEM.
func LoadCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	return c, c.Reload()
}

// Reload reads the files again. If they are not a valid pair, it leaves the certificate unchanged. Open connections do
// not change.
func (c *Certificate) Reload() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("certificate %s with the key %s: %w", c.certFile, c.keyFile, err)
	}
	c.now.Store(&pair)
	return nil
}

// Config returns the value of Options.TLS: TLS 1.2 and newer, HTTP/2 and HTTP/1.1.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil },
	}
}
