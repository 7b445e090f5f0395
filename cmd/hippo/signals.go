package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// hangup is the signal of a terminal that was closed, or that settings are to be read again.
const hangup = syscall.SIGHUP

// hangupKey is of the value of interruptible's context that takes SIGHUP over: see takeHangups.
type hangupKey struct{}

// takeHangups has every SIGHUP come to a channel from now on, in place of ending ctx, which is of interruptible.
func takeHangups(ctx context.Context, to chan<- os.Signal) {
	signal.Notify(to, hangup)
	if release, ok := ctx.Value(hangupKey{}).(func()); ok {
		release()
	}
}

// interruptible returns a context that the first Ctrl-C, SIGTERM or SIGHUP (a terminal that was closed) ends. The
// second Ctrl-C or SIGTERM ends the program at once. A SIGHUP never does: a terminal that closes sends several, and
// system services one after SIGTERM. Where the program was started with SIGHUP ignored, as nohup does, it stays so.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 4)
	hangups := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(hangup) {
		signal.Notify(hangups, hangup)
	}
	go func() {
		for count := 0; ; {
			select {
			case <-hangups:
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
	release := func() { signal.Stop(hangups) }
	return context.WithValue(ctx, hangupKey{}, release), func() {
		signal.Stop(signals)
		release()
		close(signals)
		cancel()
	}
}

// whileRead returns a context that ends with ctx, or when the reader of standard output has gone. Without it the signal
// SIGPIPE would end the program at once, and work that could be saved would be lost.
func whileRead(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGPIPE)
}
