package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/status"
)

func newCache() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List and remove tokenized data",
		Long: `List and remove what is kept of tokenized texts. It is made again when it is needed: nothing is lost but
time. The folder is that of --cache, the variable HIPPO_CACHE or the user's cache folder. It keeps itself within a limit
(cache_limit of hippo train, HIPPO_CACHE_LIMIT): what was used longest ago goes first.`,
		Example: `  hippo cache list
  hippo cache clean --older 7d
  hippo cache clean --all`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("found cache %q, want cache list or clean", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCacheList(), newCacheClean())
	return cmd
}

// cacheFlag adds the flag of the folder.
func cacheFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("cache", os.Getenv("HIPPO_CACHE"),
		"folder of tokenized data; empty: the user's cache folder")
}

func newCacheList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tokenized data, what was used last first",
		Example: "  hippo cache list",
		Args:    wantArgs(0, 0),
	}
	dir := cacheFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := data.ListCache(*dir)
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		var bytes int64
		lines := make([][]string, 0, len(list))
		for _, e := range list {
			if asJSON {
				if err := json.NewEncoder(out).Encode(e); err != nil {
					return err
				}
				continue
			}
			bytes += e.Bytes
			lines = append(lines, []string{e.Path, orUnknown(e.Source), orUnknown(e.Tokenizer),
				strconv.FormatInt(e.Tokens, 10),
				status.Bytes(uint64(e.Bytes)), e.Used.Format("2006-01-02 15:04")})
		}
		if asJSON {
			return nil
		}
		if len(list) > 0 {
			heading := []string{"path", "source", "tokenizer", "tokens", "size", "last used"}
			if err := status.Grid(out, heading, lines, false); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(out, "%d files, %s\n", len(list), status.Bytes(uint64(bytes)))
		return err
	}
	return cmd
}

// orUnknown is the text, or "unknown" where it is empty.
func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

func newCacheClean() *cobra.Command {
	var all bool
	var older string
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove tokenized data that has not been used for long",
		Long: `Remove tokenized data that has not been used for --older, or --all of it, and what killed processes left.
What a process uses now stays.`,
		Example: `  hippo cache clean --older 7d
  hippo cache clean --all`,
		Args: wantArgs(0, 0),
	}
	dir := cacheFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "remove all that is not in use")
	cmd.Flags().StringVar(&older, "older", "30d", "remove what has not been used for so long, such as 7d or 12h")
	cmd.MarkFlagsMutuallyExclusive("all", "older")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		before := time.Now().Add(time.Hour) // files may be of the future if the clock was set back
		if !all {
			age, err := parseAge(older)
			if err != nil {
				return fmt.Errorf("older: %w", err)
			}
			before = time.Now().Add(-age)
		}
		removed, inUse, err := data.CleanCache(*dir, before)
		var bytes int64
		for _, e := range removed {
			bytes += e.Bytes
		}
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "removed %d files, %s\n", len(removed), status.Bytes(uint64(bytes)))
		for _, e := range inUse {
			fmt.Fprintf(out, "kept %s (%s), which is in use\n", e.Path, orUnknown(e.Source))
		}
		return err
	}
	return cmd
}

// parseAge reads a duration, also in days.
func parseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 1e5 {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("found %.40q, want a time such as 7d or 12h", text)
}
