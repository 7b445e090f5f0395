package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/serve"
)

func newKey() *cobra.Command {
	var path, expires string
	var requests, tokens, concurrent int
	scopes := []string{string(serve.ScopeAll)}
	all := make([]string, len(serve.Scopes()))
	for i, s := range serve.Scopes() {
		all[i] = string(s)
	}
	cmd := &cobra.Command{
		Use:   "key NAME --keys FILE",
		Short: "Create an API key for a client of hippo serve",
		Long: `Create an API key for a client of hippo serve, and print it. It is shown only once: --keys gets a line
with NAME, scopes, limits, and a hash that does not reveal the key. A server reads the file again after SIGHUP.`,
		Example: `  hippo key alice --keys keys.txt
  hippo key harness --keys keys.txt --scopes completions,tokenize --rpm 600 --tpm 100000 --expires 2027-01-31
  hippo key list --keys keys.txt
  hippo key revoke alice --keys keys.txt`,
		Args:              wantArgs(1, 1),
		Annotations:       map[string]string{argumentsToo: "yes"},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&path, "keys", "", "file of keys to add to; it is created if needed")
	cmd.Flags().StringSliceVar(&scopes, "scopes", scopes, "what the key allows: "+strings.Join(all, ", "))
	cmd.Flags().IntVar(&requests, "rpm", 0, "limit of requests a minute; 0: none")
	cmd.Flags().IntVar(&tokens, "tpm", 0, "limit of tokens read and written a minute; 0: none")
	cmd.Flags().IntVar(&concurrent, "concurrent", 0, "limit of requests that run at a time; 0: none")
	cmd.Flags().StringVar(&expires, "expires", "", "first day, in UTC, on which it is invalid; empty: never")
	cmd.AddCommand(newKeyList(), newKeyRevoke())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := wantKeyFile(path); err != nil {
			return err
		}
		if min(requests, tokens, concurrent) < 0 {
			return fmt.Errorf("rpm, tpm, concurrent: found %d, %d and %d, want numbers from 0 up", requests, tokens,
				concurrent)
		}
		allowed := make([]serve.Scope, len(scopes))
		for i, s := range scopes {
			allowed[i] = serve.Scope(s)
		}
		key, secret := serve.NewKey(args[0], allowed...)
		key.Requests, key.Tokens, key.Concurrent = requests, tokens, concurrent
		if expires != "" {
			var err error
			if key.Expires, err = time.Parse(time.DateOnly, expires); err != nil {
				return fmt.Errorf("expires: found %q, want a day such as 2027-01-31", expires)
			}
		}
		if err := addKey(path, key); err != nil {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), secret)
		return err
	}
	completeFlag(cmd, "scopes", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// wantKeyFile returns an error if path is "".
func wantKeyFile(path string) error {
	if path == "" {
		return errors.New("keys: found nothing, want a file of keys")
	}
	return nil
}

func newKeyList() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:     "list --keys FILE",
		Short:   "List API keys with their scopes and limits",
		Example: "  hippo key list --keys keys.txt",
		Args:    wantArgs(0, 0),
	}
	cmd.Flags().StringVar(&path, "keys", "", "file of keys")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := wantKeyFile(path); err != nil {
			return err
		}
		keys, err := readKeys(path)
		if err != nil {
			return err
		}
		var lines [][]string
		for _, k := range keys {
			words := strings.Fields(k.String())
			lines = append(lines, []string{words[0], words[1], limit(k.Requests), limit(k.Tokens), expiry(k),
				limit(k.Concurrent)})
		}
		head := []string{"name", "scopes", "requests/min", "tokens/min", "expires", "at a time"}
		return status.Grid(cmd.OutOrStdout(), head, lines, false)
	}
	return cmd
}

// limit formats a limit.
func limit(n int) string {
	if n == 0 {
		return "any"
	}
	return strconv.Itoa(n)
}

// expiry formats the first day on which a key is invalid.
func expiry(k serve.Key) string {
	if k.Expires.IsZero() {
		return "never"
	}
	return k.Expires.Format(time.DateOnly)
}

func newKeyRevoke() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "revoke NAME --keys FILE",
		Short: "Revoke an API key",
		Long: `Revoke an API key: remove its line from the file. A running server reads the file again after SIGHUP, and
then refuses the key.`,
		Example: "  hippo key revoke alice --keys keys.txt",
		Args:    wantArgs(1, 1),
	}
	cmd.Flags().StringVar(&path, "keys", "", "file of keys")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := wantKeyFile(path); err != nil {
			return err
		}
		return revokeKey(path, args[0])
	}
	return cmd
}

// revokeKey removes the line of a key from a file of keys and leaves all other lines unchanged.
func revokeKey(path, name string) error {
	keys, err := readKeys(path)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(keys, func(k serve.Key) bool { return k.Name == name }) {
		return fmt.Errorf("%s: found no key with the name %q", path, name)
	}
	data, err := disk.ReadText(path, disk.MaxText)
	if err != nil {
		return err
	}
	return disk.Replace(path, func(f *os.File) error {
		for line := range strings.Lines(string(data)) {
			if words := strings.Fields(line); len(words) > 0 && words[0] == name {
				continue
			}
			if _, err := f.WriteString(line); err != nil {
				return err
			}
		}
		return nil
	})
}

// addKey appends a line to a file of keys. A new file can be read only by its owner.
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
