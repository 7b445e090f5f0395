package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/serve"
)

func newKey() *cobra.Command {
	var path string
	scopes := []string{string(serve.ScopeAll)}
	all := make([]string, len(serve.Scopes()))
	for i, s := range serve.Scopes() {
		all[i] = string(s)
	}
	cmd := &cobra.Command{
		Use:   "key NAME --keys FILE",
		Short: "Make an API key for a client of hippo serve",
		Long: `Make an API key for a client of hippo serve, and print it. It is shown this once: --keys gets a line with
NAME, scopes, and a hash of the key, from which nobody can tell the key. To take a key back, remove its line.`,
		Example: `  hippo key alice --keys keys.txt
  hippo key harness --keys keys.txt --scopes completions,tokenize`,
		Args:              wantArgs(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&path, "keys", "", "file of keys to add to; it is made if it is not there")
	cmd.Flags().StringSliceVar(&scopes, "scopes", scopes, "what the key allows: "+strings.Join(all, ", "))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if path == "" {
			return errors.New("keys: found nothing, want a file to add the key to")
		}
		allowed := make([]serve.Scope, len(scopes))
		for i, s := range scopes {
			allowed[i] = serve.Scope(s)
		}
		key, secret := serve.NewKey(args[0], allowed...)
		if err := addKey(path, key); err != nil {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), secret)
		return err
	}
	completeFlag(cmd, "scopes", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// addKey adds a line to a file of keys, which only its owner may read.
func addKey(path string, key serve.Key) error {
	if _, err := serve.ParseKeys([]byte(key.String())); err != nil {
		return fmt.Errorf("key %q: %w", key.Name, err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	keys, err := readKeys(path)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(keys, func(k serve.Key) bool { return k.Name == key.Name }) {
		return fmt.Errorf("%s: there is a key with the name %q, want another name", path, key.Name)
	}
	if _, err := fmt.Fprintln(f, key); err != nil {
		return err
	}
	return f.Close()
}
