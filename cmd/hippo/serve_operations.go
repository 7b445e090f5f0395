package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/hippo-ssm/hippo/serve"
)

// operations holds the flags of hippo serve for its operators.
type operations struct {
	TLSCert string `json:"tls_cert" help:"file of the certificate for TLS, in PEM; with --tls_key"`
	TLSKey  string `json:"tls_key" help:"file of the certificate's key"`

	Origins []string `json:"cors" help:"origins, as https://chat.example, whose pages may use the server; * for any"`
	Admin   string   `json:"admin" help:"address for /metrics and /debug/pprof without a key; empty: none"`

	DrainDelay time.Duration `json:"drain_delay" min:"0s" help:"how long /ready says no before requests are refused"`

	certificate *serve.Certificate
}

// apply reads the TLS certificate and completes the options of the server.
func (o *operations) apply(to *serve.Options) error {
	to.Origins, to.DrainDelay = o.Origins, o.DrainDelay
	switch {
	case o.TLSCert == "" && o.TLSKey == "":
		return nil
	case o.TLSKey == "":
		return errors.New("tls_key: found nothing, want the file of the key of --tls_cert")
	case o.TLSCert == "":
		return errors.New("tls_cert: found nothing, want the file of the certificate of --tls_key")
	}
	var err error
	if o.certificate, err = serve.LoadCertificate(o.TLSCert, o.TLSKey); err == nil {
		to.TLS = o.certificate.Config()
	}
	return err
}

// scheme returns the beginning of the server's URL.
func (o *operations) scheme() string {
	if o.certificate != nil {
		return "https://"
	}
	return "http://"
}

// reload reads the keys and the certificate again. If one of them cannot be read, the server continues with the old
// one.
func (o *serveOptions) reload(server *serve.Server, log *slog.Logger) {
	what := []any{"keys", o.Keys, "certificate", o.TLSCert}
	var problems []error
	if o.Keys != "" {
		keys, err := readKeys(o.Keys)
		if err == nil {
			err = server.SetKeys(keys)
		}
		problems = append(problems, err)
	}
	if o.certificate != nil {
		problems = append(problems, o.certificate.Reload())
	}
	if err := errors.Join(problems...); err != nil {
		log.Error("what could not be read again is as it was", append(what, "error", err.Error())...)
		return
	}
	log.Info("read again", what...)
}

// operate runs a server on a listener until ctx is done or the terminal from which it was started is closed.
func (o *serveOptions) operate(ctx context.Context, server *serve.Server, l net.Listener, log *slog.Logger) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer onHangup(ctx, func() {
		tellManager("RELOADING=1")
		o.reload(server, log)
		tellManager("READY=1")
	}, end)()
	if o.Admin != "" {
		address, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Admin)
		if err != nil {
			return fmt.Errorf("admin: %w", err)
		}
		if !isLocal(address.Addr()) {
			log.Warn("whoever reaches this address can look inside the server", "admin", address.Addr().String())
		}
		log.Info("metrics and profiles", "address", "http://"+address.Addr().String())
		running, stop := context.WithCancel(context.WithoutCancel(ctx)) // serves metrics until the server has ended
		defer stop()
		go func() {
			if err := server.RunAdmin(running, address); err != nil {
				log.Error("no more metrics and profiles", "error", err.Error())
			}
		}()
	}
	tellManager("READY=1")
	defer context.AfterFunc(ctx, func() { tellManager("STOPPING=1") })()
	return server.Run(ctx, l, o.Grace)
}

// isLocal reports whether an address can be reached only from this machine.
func isLocal(a net.Addr) bool {
	host, _, err := net.SplitHostPort(a.String())
	return err == nil && net.ParseIP(host).IsLoopback()
}

// onHangup calls reload at every SIGHUP until stop is called. If the terminal from which the program was started has
// been closed, the SIGHUP comes from there. onHangup then calls gone instead and ends, unless the program was started
// with SIGHUP ignored, as nohup does. Windows sends no SIGHUP.
func onHangup(ctx context.Context, reload, gone func()) (stop func()) {
	ignored := signal.Ignored(hangup)
	signals := make(chan os.Signal, 1)
	takeHangups(ctx, signals)
	terminal := hasTerminal()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-signals:
			}
			if terminal && !ignored && !hasTerminal() {
				gone()
				return
			}
			reload()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// hasTerminal reports whether the program has a controlling terminal.
func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// tellManager sends the program's state to a service manager such as systemd, if there is one that listens: see
// sd_notify(3). It ignores errors.
func tellManager(state string) {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return
	}
	c, err := net.Dial("unixgram", address) // an address that begins with @ is an abstract socket
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprintf(c, "%s\n", state)
}
