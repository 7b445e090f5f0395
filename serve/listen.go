package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Run answers what comes to a listener until ctx is done. Then no more requests are let in, and those that run have
// grace to end; what is left of them is ended, the models of the library go, and Run returns: nil, unless listening
// failed before.
func (s *Server) Run(ctx context.Context, l net.Listener, grace time.Duration) error {
	web := &http.Server{
		Handler: s, ReadHeaderTimeout: s.o.ReadTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
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
