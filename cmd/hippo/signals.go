package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interruptible returns a context that the first Ctrl-C, SIGTERM or SIGHUP (a terminal that was closed) ends. The
// second Ctrl-C or SIGTERM ends the program at once. A SIGHUP never does: a terminal that closes sends several, and
// system services one after SIGTERM. Where the program was started with SIGHUP ignored, as nohup does, it stays so.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 4)
	hangup := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangup, syscall.SIGHUP)
	}
	go func() {
		for count := 0; ; {
			select {
			case <-hangup:
			case _, ok := <-signals:
				if !ok {
					return
				}
				if count++; count == 2 {
					os.Exit(130)
				}
			}
			cancel()
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		signal.Stop(hangup)
		close(signals)
		cancel()
	}
}

// whileRead returns a context that ends with ctx, or when the reader of standard output has gone. Without it the signal
// SIGPIPE would end the program at once, and work that could be saved would be lost.
func whileRead(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGPIPE)
}
