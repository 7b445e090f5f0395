package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// headerTimeout is how long a client has for the headers of a request.
const headerTimeout = 10 * time.Second

// web is the server of a handler, with limits for what stands before a request.
func (s *Server) web(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: min(headerTimeout, s.o.ReadTimeout), IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, TLSConfig: s.o.TLS,
		// What a client does wrong before there is a request, such as a handshake of TLS that fails, is no news.
		ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
	}
}

// Run serves requests from a listener until ctx is done. Then /ready says so, and after Options.DrainDelay no more
// requests are let in, and those that run have grace to end; what is left of them is ended, the models of the library
// go, and Run returns: nil, unless listening failed before.
func (s *Server) Run(ctx context.Context, l net.Listener, grace time.Duration) error {
	web, ended := s.web(s), make(chan error, 1)
	go func() {
		if s.o.TLS != nil {
			ended <- web.ServeTLS(l, "", "")
		} else {
			ended <- web.Serve(l)
		}
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	if s.leaving.Store(true); s.o.DrainDelay > 0 {
		s.o.Log.Info("requests are taken for a while yet, and /ready says that the server ends",
			"delay", s.o.DrainDelay.String())
		select {
		case err := <-ended:
			return fmt.Errorf("serve: %w", err)
		case <-time.After(s.o.DrainDelay):
		}
	}
	s.Drain()
	s.o.Log.Info("no more requests are taken", "grace", grace.String())
	late, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := web.Shutdown(late)
	if errors.Is(err, context.DeadlineExceeded) {
		s.o.Log.Warn("requests that still run are ended")
		s.Close()
		// They end at the next token, or the next piece of a prompt, and their clients are told.
		last, cancel := context.WithTimeout(context.Background(), s.o.WriteTimeout)
		defer cancel()
		web.Shutdown(last) // those that are left then are cut off
		err = web.Close()
	}
	s.Close()
	last, cancel := context.WithTimeout(context.Background(), s.o.WriteTimeout)
	defer cancel()
	if err := s.Unload(last); err != nil {
		s.o.Log.Warn("models are still in use")
	}
	return err
}

// RunAdmin serves Admin on an address until ctx is done.
func (s *Server) RunAdmin(ctx context.Context, l net.Listener) error {
	web := s.web(s.Admin())
	web.TLSConfig = nil
	defer context.AfterFunc(ctx, func() { web.Close() })()
	if err := web.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
