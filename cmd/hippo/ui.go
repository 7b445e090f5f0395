package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/dashboard"
)

// uiOptions holds the flags of hippo ui.
type uiOptions struct {
	Listen string   `json:"listen" help:"address and port to listen at"`
	Hosts  []string `json:"hosts" help:"host names by which a browser may reach the dashboard; * for any"`
}

func newUI() *cobra.Command {
	opt := uiOptions{Listen: "127.0.0.1:8081"}
	cmd := &cobra.Command{
		Use:   "ui [DIR...]",
		Short: "Watch training runs in a browser",
		Long: `Watch training runs in a browser: losses, validation, learning rate, gradient norm, speed and sample
texts, several runs in one chart, the settings in which they differ, and the reports of finished ones. DIR is a run, or
a folder with runs at any depth; the default is runs. The dashboard only reads, and needs no network.

It listens on this machine only, unless --listen names another address. Whoever reaches that sees the runs.`,
		Example: `  hippo ui
  hippo ui runs/task experiments --listen 127.0.0.1:9000`,
		ValidArgsFunction: completeFolders,
	}
	return configured(cmd, &opt, opt.run)
}

// run serves the dashboard of the runs in some folders until the command is interrupted.
func (o *uiOptions) run(cmd *cobra.Command, dirs []string) error {
	ctx := cmd.Context()
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil {
			return err
		} else if !info.IsDir() {
			return fmt.Errorf("%s: found a file, want a folder of runs", dir)
		}
	}
	if len(dirs) == 0 {
		dirs = []string{runsDir}
	}
	shown, err := dashboard.New(dashboard.Options{Dirs: dirs, Hosts: o.Hosts})
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "runs are shown at http://%s until Ctrl-C\n", l.Addr())
	if err := serveUntil(ctx, l, shown); err != nil {
		return fmt.Errorf("ui: %w", err)
	}
	return nil
}

// serveUntil serves a handler until ctx is done.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	web := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	done := make(chan error, 1)
	go func() { done <- web.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if web.Shutdown(late) != nil {
		return web.Close()
	}
	return nil
}
