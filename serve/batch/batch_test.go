package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const endpoint = "/v1/echo"

// echo answers a request with its body, and with status 400 if the body contains "fail".
func echo(_ context.Context, q Request) (Response, error) {
	status := http.StatusOK
	if bytes.Contains(q.Body, []byte("fail")) {
		status = http.StatusBadRequest
	}
	return Response{status, q.Body}, nil
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	o.Endpoints = []string{endpoint}
	if o.Do == nil {
		o.Do = echo
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// upload stores a text as a file of an owner.
func (s *Store) upload(owner, text string) (File, error) {
	return s.AddFile(owner, func(w io.Writer) (string, error) {
		_, err := io.WriteString(w, text)
		return "requests.jsonl", err
	})
}

// begin starts a batch of an owner with a file of the given text.
func begin(t testing.TB, s *Store, owner, text string) Batch {
	t.Helper()
	f, err := s.upload(owner, text)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.AddBatch(owner, Wish{Input: f.ID, Endpoint: endpoint, Window: "24h"})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ended waits for the end of a batch.
func ended(t testing.TB, s *Store, b Batch) Batch {
	t.Helper()
	for {
		now, err := s.Batch(b.Owner, b.ID, b.Own())
		if err != nil {
			t.Fatal(err)
		}
		if now.Status.ended() {
			return now
		}
		time.Sleep(time.Millisecond)
	}
}

// answered waits until n requests of a batch are answered.
func answered(t testing.TB, s *Store, b Batch, n int) {
	t.Helper()
	for {
		now, err := s.Batch(b.Owner, b.ID, b.Own())
		if err != nil {
			t.Fatal(err)
		}
		if now.Counts.Completed+now.Counts.Failed == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// read reads a file of an owner, "" for none.
func read(t testing.TB, s *Store, owner, id string) string {
	t.Helper()
	if id == "" {
		return ""
	}
	_, r, err := s.OpenFile(owner, id)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// requests returns n lines. The request of every fifth line fails.
func requests(n int) string {
	var b strings.Builder
	for i := range n {
		word := "ok"
		if i%5 == 4 {
			word = "fail"
		}
		fmt.Fprintf(&b, `{"custom_id":"q%d","method":"POST","url":"%s","body":{"n":%d,"word":"%s"}}`+"\n", i,
			endpoint, i, word)
	}
	return b.String()
}

// check fails unless the files of a batch of requests(n) have each request once, in order.
func check(t testing.TB, s *Store, b Batch, n int) {
	t.Helper()
	if b.Status != Completed || b.Counts != (Counts{n, n - n/5, n / 5}) {
		t.Fatalf("got %+v", b)
	}
	seen := 0
	for id, status := range map[string]int{b.Output: http.StatusOK, b.Errors: http.StatusBadRequest} {
		last := -1
		for line := range strings.Lines(read(t, s, b.Owner, id)) {
			var r struct {
				ID       string
				CustomID string `json:"custom_id"`
				Response struct {
					Status int `json:"status_code"`
					Body   struct{ N int }
				}
				Error any
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if r.Response.Status != status || r.CustomID != fmt.Sprintf("q%d", r.Response.Body.N) || r.Error != nil ||
				r.Response.Body.N <= last || !strings.HasPrefix(r.ID, "batch_req_") {
				t.Fatalf("found %s", line)
			}
			last = r.Response.Body.N
			seen++
		}
	}
	if seen != n {
		t.Fatalf("found %d lines, want %d", seen, n)
	}
}

// vaults runs a test for both kinds of stores.
func vaults(t *testing.T, f func(t *testing.T, o Options)) {
	t.Run("memory", func(t *testing.T) { f(t, Options{}) })
	t.Run("folder", func(t *testing.T) { f(t, Options{Dir: t.TempDir()}) })
}

// TestBatchAnswersEachLine checks that the output has the answers of a batch, and the file of errors the refused
// requests, in the order of the input, whatever the order of the answers.
func TestBatchAnswersEachLine(t *testing.T) {
	vaults(t, func(t *testing.T, o Options) {
		s := open(t, o)
		b := ended(t, s, begin(t, s, "alice", requests(200)))
		check(t, s, b, 200)
		f, err := s.File("alice", b.Output)
		if err != nil || f.Purpose != PurposeOutput || f.Bytes == 0 || f.Name != b.ID+"_output.jsonl" {
			t.Errorf("got %+v, %v", f, err)
		}
		var all int64
		files, _, err := s.Files("alice", "", Page{Limit: 10})
		for _, f := range files {
			all += f.Bytes
		}
		if err != nil || len(files) != 3 || s.total != all || s.used["alice"] != all {
			t.Errorf("%d files have %d bytes, the store counts %d and %d", len(files), all, s.total, s.used["alice"])
		}
		for _, f := range files {
			if err := s.DeleteFile("alice", f.ID); err != nil {
				t.Error(err)
			}
		}
		if s.total != 0 || len(s.used) != 0 {
			t.Errorf("without files the store counts %d bytes and %v", s.total, s.used)
		}
	})
}

// TestBadLines checks that an invalid line gives an error, and the others get their answers.
func TestBadLines(t *testing.T) {
	s := open(t, Options{MaxLine: 300})
	good := `{"custom_id":"%s","method":"POST","url":"/v1/echo","body":{}}` + "\n"
	text := fmt.Sprintf(good, "first") + "\n  \r\n" + "no JSON\n" + "[]\n" + "{}\n" +
		`{"custom_id":7,"method":"POST","url":"/v1/echo","body":{}}` + "\n" +
		`{"custom_id":"a","method":"GET","url":"/v1/echo","body":{}}` + "\n" +
		`{"custom_id":"b","method":"POST","url":"/v1/other","body":{}}` + "\n" +
		`{"custom_id":"c","method":"POST","url":"/v1/echo","body":[]}` + "\n" +
		`{"custom_id":"d","method":"POST","url":"/v1/echo","body":{"stream":true}}` + "\n" +
		fmt.Sprintf(good, "first") + "\xff\n" + strings.Repeat("x", 100000) + "\n" +
		strings.TrimSpace(fmt.Sprintf(good, "海")) // without a newline at the end
	b := ended(t, s, begin(t, s, "", text))
	if b.Status != Completed || b.Counts != (Counts{13, 2, 11}) {
		t.Fatalf("got %+v", b)
	}
	if out := read(t, s, "", b.Output); strings.Count(out, "\n") != 2 || !strings.Contains(out, `"custom_id":"海"`) {
		t.Errorf("the output is %s", out)
	}
	faults := read(t, s, "", b.Errors)
	for _, want := range []string{
		"line 4: want a JSON object", "line 6: custom_id: found nothing", "line 7: custom_id: found 7",
		"line 8: method: found", "line 9: url: found", "line 10: body: found []", "line 11: body.stream",
		"line 12: custom_id: found it for the second time", "line 13: found a line that is no UTF-8",
		"line 14: found a line of more than 300 bytes", `"custom_id":null`, `"custom_id":"d"`,
	} {
		if !strings.Contains(faults, want) {
			t.Errorf("the errors do not have %q:\n%s", want, faults)
		}
	}
}

// TestEmptyAndLongFilesFail checks that batches without requests, and with too many, fail.
func TestEmptyAndLongFilesFail(t *testing.T) {
	s := open(t, Options{MaxLines: 3})
	for text, code := range map[string]string{
		"": "empty_file", "\n\n": "empty_file", requests(4): "too_many_requests",
	} {
		if b := ended(t, s, begin(t, s, "", text)); b.Status != Failed || len(b.Problems) != 1 ||
			b.Problems[0].Code != code {
			t.Errorf("%q: got %+v", text, b)
		}
	}
}

// TestBatchGoesOnAfterAnyEnd checks that wherever a process ends while a batch runs, the next one continues it:
// requests in the journal are not repeated, an incomplete last record is, and each request is in the output once.
func TestBatchGoesOnAfterAnyEnd(t *testing.T) {
	const n = 12
	before := t.TempDir()
	s := open(t, Options{Dir: before, Together: 1, Do: func(ctx context.Context, q Request) (Response, error) {
		if bytes.Contains(q.Body, []byte(`"n":10`)) { // the batch stops here
			<-ctx.Done()
			return Response{}, ctx.Err()
		}
		return echo(ctx, q)
	}})
	b := begin(t, s, "alice", requests(n))
	journalOf := filepath.Join(before, b.ID+progress)
	answered(t, s, b, 10)
	whole, err := os.ReadFile(journalOf)
	if err != nil || bytes.Count(whole, []byte("\n")) != 10 {
		t.Fatalf("the journal is %s (%v)", whole, err)
	}
	files := map[string][]byte{}
	names, err := s.vault.names()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names { // as left by a killed process
		if files[name], err = os.ReadFile(filepath.Join(before, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	step := 37
	if testing.Short() {
		step *= 5
	}
	for at := 0; at <= len(whole); at += step {
		dir := t.TempDir()
		files[b.ID+progress] = whole[:at]
		if at%2 == 1 { // the rest is zeros, as on some file systems
			files[b.ID+progress] = append(slices.Clone(whole[:at]), make([]byte, 50)...)
		}
		for name, data := range files {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		var asked atomic.Int32
		s := open(t, Options{Dir: dir, Do: func(ctx context.Context, q Request) (Response, error) {
			asked.Add(1)
			return echo(ctx, q)
		}})
		check(t, s, ended(t, s, b), n)
		if want := n - bytes.Count(whole[:at], []byte("\n")); int(asked.Load()) != want {
			t.Errorf("after %d of %d bytes %d requests are asked, want %d", at, len(whole), asked.Load(), want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// keeping is a vault that does not remove journals.
type keeping struct{ vault }

func (k keeping) remove(name string) error {
	if strings.HasSuffix(name, progress) {
		return nil
	}
	return k.vault.remove(name)
}

// TestFinalizingTwice checks that a process that ends while writing the output leaves a batch that the next one
// finishes, with one output.
func TestFinalizingTwice(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	s.vault = keeping{s.vault}
	b := ended(t, s, begin(t, s, "alice", requests(20)))
	want := read(t, s, "alice", b.Output)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b.Status, b.Output, b.Errors = Finalizing, "", "" // the output exists, but is not recorded
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, b.ID+described), data, 0o666); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{Dir: dir})
	again := ended(t, s, b)
	if files, _, _ := s.Files("alice", "", Page{Limit: 9}); len(files) != 3 || again.Output == "" ||
		read(t, s, "alice", again.Output) != want || again.Counts != b.Counts {
		t.Errorf("got %+v", again)
	}
}

// TestCancel checks that a cancelled batch has finished requests in its output, a queued one ends without output, and a
// finished one does not change.
func TestCancel(t *testing.T) {
	vaults(t, func(t *testing.T, o Options) {
		var asked atomic.Int32
		o.Together = 2
		o.Do = func(ctx context.Context, q Request) (Response, error) {
			if asked.Add(1) > 6 {
				<-ctx.Done()
				return Response{}, ctx.Err()
			}
			return echo(ctx, q)
		}
		s := open(t, o)
		first, second := begin(t, s, "", requests(50)), begin(t, s, "", requests(50))
		answered(t, s, first, 6)
		for _, b := range []Batch{second, first, first} {
			if _, err := s.Cancel("", b.ID, false); err != nil {
				t.Fatal(err)
			}
		}
		a, b := ended(t, s, first), ended(t, s, second)
		if a.Status != Cancelled || a.Counts.Total != 50 || a.Counts.Completed+a.Counts.Failed != 6 ||
			strings.Count(read(t, s, "", a.Output), "\n") != a.Counts.Completed {
			t.Errorf("got %+v", a)
		}
		if b.Status != Cancelled || b.Output != "" || b.Errors != "" {
			t.Errorf("got %+v", b)
		}
		if c, err := s.Cancel("", a.ID, false); err != nil || c.Status != Cancelled {
			t.Errorf("got %+v, %v", c, err)
		}
	})
}

// TestExpired checks that requests that were not answered before the batch expired are among its errors, and that a
// busy server is asked again until then.
func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		s := open(t, Options{Do: func(ctx context.Context, q Request) (Response, error) {
			if bytes.Contains(q.Body, []byte(`"n":7`)) {
				asked.Add(1)
				return Response{}, ErrLater
			}
			return echo(ctx, q)
		}})
		b := begin(t, s, "", requests(10))
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		b, err := s.Batch("", b.ID, false)
		faults := read(t, s, "", b.Errors)
		if err != nil || b.Status != Expired || b.Counts != (Counts{10, 7, 2}) || strings.Count(faults, "\n") != 3 ||
			!strings.Contains(faults, `"custom_id":"q7","response":null,"error":{"code":"batch_expired"`) {
			t.Errorf("got %+v (%v), errors %s", b, err, faults)
		}
		if n := asked.Load(); n < 1000 || n > 24*3600 {
			t.Errorf("a server that is busy is asked %d times in a day", n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestManyOwners checks that batches of several owners run concurrently, within the limit on requests.
func TestManyOwners(t *testing.T) {
	var now, most atomic.Int32
	s := open(t, Options{Together: 3, Do: func(ctx context.Context, q Request) (Response, error) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		time.Sleep(100 * time.Microsecond)
		return echo(ctx, q)
	}})
	var all sync.WaitGroup
	for i := range 5 {
		owner := fmt.Sprint(i)
		for range 2 {
			b := begin(t, s, owner, requests(40))
			all.Go(func() { check(t, s, ended(t, s, b), 40) })
		}
	}
	all.Wait()
	if most.Load() > 3 {
		t.Errorf("%d requests at a time, want at most 3", most.Load())
	}
}
