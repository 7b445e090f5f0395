package main

import (
	"encoding/json"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hippo-ssm/hippo/internal/config"
)

// configured adds flags for opt, a pointer to a struct that package config reads, to a command. The command reads the
// flags into opt and calls run.
func configured(cmd *cobra.Command, opt any, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	config.Register(cmd.Flags(), opt)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := config.Load(opt, config.Options{Flags: cmd.Flags()}); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

// The help texts of --json.
const (
	oneObject  = "print a JSON object"
	objectLine = "print one JSON object a line"
)

// jsonFlag adds the flag --json, which show and showList read.
func jsonFlag(cmd *cobra.Command, help string) { cmd.Flags().Bool("json", false, help) }

// asJSON reports whether --json is set.
func asJSON(cmd *cobra.Command) bool {
	set, err := strconv.ParseBool(cmd.Flags().Lookup("json").Value.String())
	return set && err == nil
}

// plainJSON returns an encoder that does not escape <, > and &.
func plainJSON(out io.Writer) *json.Encoder {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e
}

// show prints a result by calling text, or with --json as a JSON object.
func show(cmd *cobra.Command, result any, text func(io.Writer) error) error {
	if asJSON(cmd) {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
	}
	return text(cmd.OutOrStdout())
}

// showList prints a list by calling text, or with --json as one JSON object a line.
func showList[T any](cmd *cobra.Command, list []T, text func(io.Writer, []T) error) error {
	if !asJSON(cmd) {
		return text(cmd.OutOrStdout(), list)
	}
	for _, x := range list {
		if err := json.NewEncoder(cmd.OutOrStdout()).Encode(x); err != nil {
			return err
		}
	}
	return nil
}

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
