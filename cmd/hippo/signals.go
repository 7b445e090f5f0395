package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// hangup is the signal that tells that a terminal was closed, or that asks to read settings again.
const hangup = syscall.SIGHUP

// hangupKey is the key of a value of interruptible's context: see takeHangups.
type hangupKey struct{}

// takeHangups makes every SIGHUP go to a channel instead of ending ctx, which interruptible has returned.
func takeHangups(ctx context.Context, to chan<- os.Signal) {
	signal.Notify(to, hangup)
	if release, ok := ctx.Value(hangupKey{}).(func()); ok {
		release()
	}
}

// signalError reports that a signal has ended interruptible's context. It is the cause of that context and wraps
// context.Canceled.
type signalError struct{ os.Signal }

func (e signalError) Error() string { return e.String() }

func (signalError) Unwrap() error { return context.Canceled }

// interruptible returns a context that the first Ctrl-C, SIGTERM, SIGHUP (a closed terminal) or SIGUSR1 (a batch
// system's warning) cancels. The second Ctrl-C or SIGTERM ends the program at once. A SIGHUP never does, as a closing
// terminal sends several, and service managers send one after SIGTERM. A program that was started with SIGHUP ignored,
// as nohup does, continues to ignore it.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 4)
	hangups := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if userSignal != nil {
		signal.Notify(signals, userSignal)
	}
	if !signal.Ignored(hangup) {
		signal.Notify(hangups, hangup)
	}
	go func() {
		for count := 0; ; {
			var s os.Signal
			ok := true
			select {
			case s = <-hangups:
			case s, ok = <-signals:
				if !ok {
					return
				}
				if s == userSignal { // a batch system may send SIGTERM after it
					break
				}
				if count++; count == 2 {
					os.Exit(130)
				}
			}
			cancel(signalError{s})
		}
	}()
	release := func() { signal.Stop(hangups) }
	return context.WithValue(ctx, hangupKey{}, release), func() {
		signal.Stop(signals)
		release()
		close(signals)
		cancel(nil)
	}
}

// whileRead returns a context that ends with ctx, or when the reader of standard output or standard error closes it.
// Without whileRead, SIGPIPE would end the program at once, and work that can be saved would be lost. Closed
// connections also cause SIGPIPE, but do not end the context.
func whileRead(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-broken:
				if isUnread(os.Stdout) || isUnread(os.Stderr) {
					cancel()
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(broken)
		cancel()
	}
}
