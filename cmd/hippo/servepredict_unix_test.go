//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestServePredict checks that hippo serve, with only a folder of hippo fit, responds to rows with the bytes that hippo
// predict prints, also row by row while a client sends them. An open stream does not keep the server from ending.
func TestServePredict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("time,temp,state\n")
	for i := range 120 {
		x := math.Sin(float64(i) / 5)
		state := map[bool]string{true: "on", false: "off"}[x > 0]
		fmt.Fprintf(&b, "2026-01-01 00:%02d:%02d,%.3f,%s\n", i/60, i%60, 20+x, state)
	}
	table := b.String()
	if err := os.WriteFile(filepath.Join(dir, "machine.csv"), []byte(table), 0o666); err != nil {
		t.Fatal(err)
	}
	small := []string{"--epochs", "1", "--model.layers", "s4d*1", "--model.d_model", "8", "--model.d_state", "4"}
	background(t, dir, append([]string{"fit", "machine.csv", "--target", "state", "--length", "16", "--out", "run"},
		small...)...).wantEnd(0)
	background(t, dir, append([]string{"forecast", "machine.csv", "--target", "temp", "--horizon", "3", "--lookback",
		"8", "--out", "next"}, small...)...).wantEnd(0)
	said := background(t, dir, "serve", "x=run", "x=next").wantEnd(1)
	if !strings.Contains(said, `two models with the name "x"`) {
		t.Errorf("two networks of one name: %s", said)
	}
	p := background(t, dir, "serve", "run", "sales=next", "--listen", "127.0.0.1:0")
	server := addressIn(p, `"models":\["run","sales"\],"address":"(http://127[^"]+)"`)
	printed := func(args ...string) string {
		t.Helper()
		cmd, out := command(dir, args...), new(bytes.Buffer)
		cmd.Stdout = out
		start(t, cmd).wantEnd(0)
		return out.String()
	}
	ask := func(path string, body io.Reader) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "text/csv")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}
	for name, folder := range map[string]string{"run": "run", "sales": "next"} {
		for _, as := range []string{"csv", "jsonl"} {
			want := printed("predict", folder, "machine.csv", "--as", as, "--all")
			got, err := io.ReadAll(ask("/v1/predict?all=true&model="+name+"&as="+as, strings.NewReader(table)).Body)
			if err != nil || string(got) != want || len(want) < 200 {
				t.Errorf("%s as %s: found %q, want what hippo predict prints, %q (%v)", name, as, got, want, err)
			}
		}
	}
	rows, to := io.Pipe()
	lines := strings.SplitAfter(table, "\n")
	go io.WriteString(to, lines[0]+lines[1])
	answers := bufio.NewReader(ask("/v1/predict/stream", rows).Body)
	for i := 2; i < 5; i++ {
		got, err := answers.ReadString('\n')
		want := fmt.Sprintf(`{"line":%d,"time":"2026-01-01T00:00:0%dZ","class":"o`, i, i-2)
		if err != nil || !strings.HasPrefix(got, want) {
			t.Fatalf("found %q (%v)", got, err)
		}
		io.WriteString(to, lines[i])
	}
	p.signal(syscall.SIGTERM)
	rest, err := io.ReadAll(answers)
	if err != nil || !strings.Contains(string(rest), `"code":"shutting_down"`) {
		t.Errorf("the stream ends with %q (%v)", rest, err)
	}
	p.wantEnd(0)
}
