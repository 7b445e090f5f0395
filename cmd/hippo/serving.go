package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/serve/ollama"
)

// remote is a server that a command talks to.
type remote struct{ server, key string }

// keyVariable is the environment variable of the API key of a server.
const keyVariable = "HIPPO_API_KEY"

func (r *remote) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.server, "server", "http://127.0.0.1:8080", "address of the server")
	cmd.Flags().StringVar(&r.key, "key", "", "API key (default: "+keyVariable+")")
}

// do sends a request to the server and decodes its response into answer.
func (r *remote) do(ctx context.Context, method, path string, body, answer any) error {
	address := strings.TrimRight(r.server, "/")
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("server: found %.200q, want an address such as http://127.0.0.1:8080", r.server)
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	const longest = time.Minute
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, address+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	if key := cmp.Or(r.key, os.Getenv(keyVariable)); key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%w (hippo serve starts a server)", errors.Unwrap(err))
	}
	defer response.Body.Close()
	const most = 16 << 20
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		var said struct{ Error string }
		if json.Unmarshal(text, &said) != nil || said.Error == "" {
			said.Error = brief.Line(string(text))
		}
		return fmt.Errorf("%s answers %s: %s", address, response.Status, said.Error)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s answers %.100q, want what hippo serve answers", address, text)
	}
	return nil
}

func newPs() *cobra.Command {
	var from remote
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "Show which models a server has loaded",
		Long: `Show which models a running hippo serve has in memory, the last used first: the memory of the weights and
of cached texts, when they are unloaded, the requests that use them and those that wait for them, and the texts that are
running and those that wait for a step of the model.`,
		Example: "  hippo ps\n  hippo ps --server http://other:8080 --json",
		Args:    wantArgs(0, 0),
	}
	from.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var answer ollama.Loaded
		if err := from.do(cmd.Context(), http.MethodGet, "/api/ps", nil, &answer); err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if !asJSON {
			return printLoaded(out, answer)
		}
		return json.NewEncoder(out).Encode(answer)
	}
	return cmd
}

func printLoaded(out io.Writer, all ollama.Loaded) error {
	var lines [][]string
	for _, m := range all.Models {
		goes := "never"
		if left := time.Until(m.Expires); left < 100*365*24*time.Hour {
			goes = "in " + status.Duration(max(0, left))
		}
		lines = append(lines, []string{brief.Line(m.Name), status.Bytes(m.Weights),
			status.Bytes(m.Texts), goes, strconv.Itoa(m.Uses), strconv.Itoa(m.Waiting),
			strconv.Itoa(m.Running), strconv.Itoa(m.Queued)})
	}
	for _, m := range all.Loading {
		state := "waits for room"
		if m.Started {
			state = "is being loaded"
		}
		lines = append(lines, []string{brief.Line(m.Name), status.Bytes(m.Weights), "", state, "",
			strconv.Itoa(m.Waiting), "", ""})
	}
	if len(lines) == 0 {
		_, err := fmt.Fprintln(out, "no models are loaded")
		return err
	}
	head := []string{"name", "weights", "texts", "goes", "requests", "waiting", "running", "queued"}
	return status.Grid(out, head, lines, false)
}

func newStop() *cobra.Command {
	var from remote
	cmd := &cobra.Command{
		Use:               "stop NAME",
		Short:             "Unload a model of a server",
		Long:              "Make a running hippo serve unload the model NAME as soon as no request uses it.",
		Example:           "  hippo stop tiny",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	from.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body := map[string]any{"model": args[0], "keep_alive": 0}
		return from.do(cmd.Context(), http.MethodPost, "/api/generate", body, new(map[string]any))
	}
	return cmd
}
