package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/inspect"
	"github.com/hippo-ssm/hippo/internal/status"
)

func newCache() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List and remove tokenized texts",
		Long: `List and remove the cache of tokenized texts. It is made again when it is needed: only time is lost. The
folder is that of --cache, the variable HIPPO_CACHE or the user's cache folder. It stays within a limit (cache_limit of
hippo train, HIPPO_CACHE_LIMIT): what was used longest ago is evicted first.`,
		Example: `  hippo cache list
  hippo cache clean --older 7d
  hippo cache clean --all`,
	}
	cmd.AddCommand(newCacheList(), newCacheClean())
	return cmd
}

// cacheFlag adds the flag --cache, the folder of tokenized texts.
func cacheFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("cache", os.Getenv("HIPPO_CACHE"),
		"folder of tokenized texts; empty: the user's cache folder")
}

func newCacheList() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tokenized texts, the last used first",
		Example: "  hippo cache list",
		Args:    wantArgs(0, 0),
	}
	dir := cacheFlag(cmd)
	jsonFlag(cmd, objectLine)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := data.ListCache(*dir)
		if err != nil {
			return err
		}
		return showList(cmd, list, printCache)
	}
	return cmd
}

func printCache(out io.Writer, list []data.CacheEntry) error {
	var bytes int64
	var lines [][]string
	for _, e := range list {
		bytes += e.Bytes
		lines = append(lines, []string{e.Path, inspect.OrUnknown(e.Source), inspect.OrUnknown(e.Tokenizer),
			strconv.FormatInt(e.Tokens, 10), status.Bytes(e.Bytes), status.Minute(e.Used)})
	}
	if len(list) > 0 {
		heading := []string{"path", "source", "tokenizer", "tokens", "size", "last used"}
		if err := status.Grid(out, heading, lines, false); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%d files, %s\n", len(list), status.Bytes(bytes))
	return err
}

func newCacheClean() *cobra.Command {
	var all bool
	var older string
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove tokenized texts that were not used lately",
		Long: `Remove tokenized texts that were not used for --older, or --all of them, and what killed processes left.
Files in use stay.`,
		Example: `  hippo cache clean --older 7d
  hippo cache clean --all`,
		Args: wantArgs(0, 0),
	}
	dir := cacheFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "remove all that are not in use")
	cmd.Flags().StringVar(&older, "older", "30d", "remove those not used for this time, such as 7d or 12h")
	cmd.MarkFlagsMutuallyExclusive("all", "older")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		before := time.Now().Add(time.Hour) // a file's time may be in the future if the clock was set back
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
		fmt.Fprintf(out, "removed %d files, %s\n", len(removed), status.Bytes(bytes))
		for _, e := range inUse {
			fmt.Fprintf(out, "not removed: %s (%s) is in use\n", e.Path, inspect.OrUnknown(e.Source))
		}
		return err
	}
	return cmd
}

// parseAge parses a duration, which may also be a number of days such as 7d.
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
