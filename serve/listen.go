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

// headerTimeout is the maximum time in which a client sends the headers of a request.
const headerTimeout = 10 * time.Second

// web returns the HTTP server of a handler, with limits on connections.
func (s *Server) web(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: min(headerTimeout, s.o.ReadTimeout), IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, TLSConfig: s.o.TLS,
		// Errors of clients before a request, such as a failed TLS handshake, are not worth a log line by default.
		ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
	}
}

// Run serves requests from a listener until ctx is done. Then /ready reports the shutdown, and after Options.DrainDelay
// no more requests are admitted. Requests in flight have the time grace to finish, and are then canceled. Run then
// unloads the models of the library and returns nil, unless listening failed before.
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
		s.o.Log.Info("shutting down: /ready reports it, and requests are still admitted during the delay",
			"delay", s.o.DrainDelay.String())
		select {
		case err := <-ended:
			return fmt.Errorf("serve: %w", err)
		case <-time.After(s.o.DrainDelay):
		}
	}
	s.Drain()
	s.o.Log.Info("no more requests are admitted", "grace", grace.String())
	late, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := web.Shutdown(late)
	s.Responses.Wait(late)
	if errors.Is(err, context.DeadlineExceeded) {
		s.o.Log.Warn("canceling the remaining requests")
		s.Close()
		// Canceled requests end at the next token, or the next piece of a prompt, with an error to their clients.
		last, cancel := context.WithTimeout(context.Background(), s.o.WriteTimeout)
		defer cancel()
		web.Shutdown(last) // connections that are left are closed
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

// RunAdmin serves Admin on a listener until ctx is done.
func (s *Server) RunAdmin(ctx context.Context, l net.Listener) error {
	web := s.web(s.Admin())
	web.TLSConfig = nil
	defer context.AfterFunc(ctx, func() { web.Close() })()
	if err := web.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
