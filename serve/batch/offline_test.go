package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// offlineOf returns an Offline in a new folder that answers the given lines by do.
func offlineOf(t testing.TB, lines string, do func(context.Context, Request) (Response, error)) *Offline {
	t.Helper()
	dir := t.TempDir()
	o := &Offline{In: filepath.Join(dir, "in.jsonl"), Out: filepath.Join(dir, "out.jsonl"), By: "me",
		Endpoints: []string{endpoint, completions, "/v1/embeddings"}, Do: do, Together: 3, MaxLine: 300}
	if err := os.WriteFile(o.In, []byte(lines), 0o666); err != nil {
		t.Fatal(err)
	}
	return o
}

// mixedLines has lines of every kind, with empty lines in between.
const mixedLines = `{"custom_id":"a","method":"POST","url":"/v1/echo","body":{"n":1}}

{"prompt":"Call me","custom_id":"b","max_tokens":3}
{"custom_id":"c","method":"POST","url":"/v1/files","body":{}}
   ` + `
nonsense
{"input":["x"]}
{"messages":[]}
{"prompt":"fail"}
{"text":"x","prompt":"y"}
{"method":"GET","url":"/v1/echo","body":{"n":2}}
{"method":"POST","url":"/v1/echo","body":{"stream":true}}
{"text":7}
{"custom_id":"` + "\xff" + `"}
{"other":1}
{"method":"POST","url":"/v1/echo","body":{"n":3}}`

// readOut reads the results.
func (o *Offline) readOut(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(o.Out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// TestOffline checks that each line has one result, in order and with its number, and that errors of lines are
// reported.
func TestOffline(t *testing.T) {
	o := offlineOf(t, mixedLines+"\n"+strings.Repeat("x", 301), echo)
	tally, err := o.Run(t.Context())
	if err != nil || tally != (Tally{Lines: 15, Failed: 11}) {
		t.Fatalf("%+v, %v, want 15 results, of them 11 failures", tally, err)
	}
	want := []string{
		`1 a {"n":1}`,
		`3 b {"max_tokens":3,"prompt":"Call me"}`,
		`4 c line 4: url: found "/v1/files", want one of /v1/echo, /v1/completions, /v1/embeddings`,
		`6  line 6: want a JSON object: invalid character 'o' in literal null (expecting 'u')`,
		`7  {"input":["x"]}`,
		`8  line 8: messages: found it, and no model that takes it`,
		`9  {"prompt":"fail"}`,
		`10  line 10: found text and prompt, want url and body, or one of text, messages, prompt, input`,
		`11  line 11: method: found "GET", want POST`,
		`12  line 12: body.stream: found true, want false: nobody reads a stream`,
		`13  line 13: text: found 7, want text and context as strings, logprobs as true or false`,
		`14  line 14: found a line that is no UTF-8`,
		`15  line 15: found no such field, want url and body, or one of text, messages, prompt, input`,
		`16  {"n":3}`,
		`17  line 17: found a line of more than 300 bytes`,
	}
	var got []string
	for line := range strings.Lines(o.readOut(t)) {
		var r outcome
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		id, said := "", ""
		if r.CustomID != nil {
			id = *r.CustomID
		}
		if r.Error != nil {
			said = r.Error.Message
		} else {
			said = string(r.Response.Body)
		}
		got = append(got, fmt.Sprintf("%d %s %s", r.Line, id, said))
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("found\n%s\nwant\n%s", a, b)
	}
}

// TestOfflineAnswer checks that a single line has the same result as in a file, without the number.
func TestOfflineAnswer(t *testing.T) {
	o := offlineOf(t, "", echo)
	for line, want := range map[string]string{
		`{"custom_id":"b","input":["x"]}`: `{"sum":"SUM","id":"line-SUM","custom_id":"b","response":{` +
			`"status_code":200,"request_id":"line-SUM","body":{"input":["x"]}},"error":null}`,
		`{}`: `{"sum":"SUM","id":"line-SUM","custom_id":null,"response":null,"error":{"code":"invalid_line",` +
			`"message":"found no such field, want url and body, or one of text, messages, prompt, input"}}`,
	} {
		got, err := o.Answer(t.Context(), []byte(line))
		if want = strings.ReplaceAll(want, "SUM", o.sum([]byte(line))); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

// TestOfflineCut checks that a file of results truncated at any byte is completed to the same file, without repeating
// lines whose results are complete.
func TestOfflineCut(t *testing.T) {
	var asked atomic.Int32
	o := offlineOf(t, mixedLines, func(ctx context.Context, q Request) (Response, error) {
		asked.Add(1)
		return echo(ctx, q)
	})
	if _, err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := o.readOut(t)
	all := asked.Load()
	opened := openResults
	t.Cleanup(func() { openResults = opened })
	openResults = func(path string) (results, error) { // nothing is synced, since there are hundreds of runs
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		return unsynced{f}, err
	}
	for cut := range len(whole) {
		const some = 61
		if cut%some != 0 && whole[cut] != '\n' && (cut == 0 || whole[cut-1] != '\n') {
			continue
		}
		asked.Store(0)
		if err := os.WriteFile(o.Out, []byte(whole[:cut]), 0o666); err != nil {
			t.Fatal(err)
		}
		tally, err := o.Run(t.Context())
		if err != nil || o.readOut(t) != whole {
			t.Fatalf("cut at byte %d: %v, %+v, found\n%s", cut, err, tally, o.readOut(t))
		}
		if done := strings.Count(whole[:cut], "\n"); tally.Before != done || tally.Lines != 14 ||
			int(all-asked.Load()) != strings.Count(whole[:cut], `"request_id"`)-strings.Count(whole[strings.LastIndex(
				whole[:cut], "\n")+1:cut], `"request_id"`) {
			t.Fatalf("cut at byte %d: %+v after %d requests, want %d results that were there", cut, tally, asked.Load(),
				done)
		}
	}
}

// unsynced is a file whose data need not survive a system crash.
type unsynced struct{ *os.File }

func (unsynced) Sync() error { return nil }

// TestOfflineShards checks that the concatenated results of any number of shards are those of the whole.
func TestOfflineShards(t *testing.T) {
	o := offlineOf(t, mixedLines, echo)
	if _, err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := o.readOut(t)
	for _, shards := range []int{2, 3, 7, 16} {
		var parts bytes.Buffer
		for n := range shards {
			p := *o
			p.Shard, p.Shards, p.Out = n+1, shards, fmt.Sprintf("%s-%d-%d", o.Out, shards, n)
			if _, err := p.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			parts.WriteString(p.readOut(t))
		}
		if parts.String() != whole {
			t.Fatalf("%d shards: found\n%s\nwant\n%s", shards, &parts, whole)
		}
	}
	// Several runs take parts concurrently. In the end, each part is there once.
	o.Out = filepath.Join(t.TempDir(), "parts")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			_, held, err := o.Parts(t.Context(), 12)
			if err != nil || len(held) > 2 {
				t.Errorf("%v, others have %v", err, held)
			}
		})
	}
	all.Wait()
	var joined string
	names, err := filepath.Glob(filepath.Join(o.Out, "*"))
	for _, name := range names {
		text, e := os.ReadFile(name)
		err, joined = errors.Join(err, e), joined+string(text)
	}
	if err != nil || len(names) != 12 || filepath.Base(names[2]) != "part-03-of-12.jsonl" || joined != whole {
		t.Errorf("%v, files %q with\n%s\nwant\n%s", err, names, joined, whole)
	}
}

// TestOfflineOther checks that a file with results of other lines or another model, an unrelated file, and results that
// another process is writing, are not changed.
func TestOfflineOther(t *testing.T) {
	o := offlineOf(t, mixedLines, echo)
	if _, err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := o.readOut(t)
	for _, c := range []struct {
		change func(o *Offline)
		out    string // "" for the whole
		want   string
	}{
		{func(o *Offline) { o.By = "you" }, "", "found a result for line 1 that is not one for line 1 of"},
		{func(o *Offline) { o.Shard, o.Shards = 2, 2 }, "", "that is not one for line"},
		{func(o *Offline) {}, whole + strings.SplitAfter(whole, "\n")[0], "found a result for line 1 that is not"},
		{func(o *Offline) {}, "mine", `found "mine" after 0 results, want a result of hippo score`},
		{func(o *Offline) {}, "mine\n" + whole, `want a result of hippo score`},
		{func(o *Offline) {}, strings.Replace(whole, `"line":3`, `"line":x`, 1), "after 1 results, want a result"},
		{func(o *Offline) { o.Out = o.In }, "", "found the file of the lines"},
	} {
		out := c.out
		if out == "" {
			out = whole
		}
		if err := os.WriteFile(o.Out, []byte(out), 0o666); err != nil {
			t.Fatal(err)
		}
		other := *o
		c.change(&other)
		if _, err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q in it", err, c.want)
		}
		if o.readOut(t) != out {
			t.Errorf("after %q: the results have changed", c.want)
		}
	}
	err := disk.Claim(t.Context(), o.Out, false, func(context.Context) error {
		_, err := o.Run(t.Context())
		return err
	})
	var locked *disk.LockedError
	if !errors.As(err, &locked) {
		t.Errorf("%v, want a LockedError", err)
	}
	// Additional lines are answered when they are there.
	if err := os.WriteFile(o.Out, []byte(whole), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.In, []byte(mixedLines+"\n"+`{"input":"y"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if tally, err := o.Run(t.Context()); err != nil || tally != (Tally{Before: 14, Lines: 15, Failed: 10}) {
		t.Errorf("%+v, %v, want one result more", tally, err)
	}
}

// TestOfflineStopped checks that a stopped run leaves the results before the first missing one, in order, even if later
// lines were answered earlier, and that the next run continues.
func TestOfflineStopped(t *testing.T) {
	var lines strings.Builder
	for n := range 40 {
		fmt.Fprintf(&lines, `{"input":%d}`+"\n", n)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	ninth := make(chan struct{})
	o := offlineOf(t, lines.String(), func(ctx context.Context, q Request) (Response, error) {
		switch string(q.Body) {
		case `{"input":7}`:
			<-ctx.Done()
			return Response{}, ctx.Err()
		case `{"input":9}`:
			defer close(ninth)
		}
		return echo(ctx, q)
	})
	done := 0
	o.Progress = func() {
		if done++; done == 7 {
			<-ninth
			cancel(cause)
		}
	}
	tally, err := o.Run(ctx)
	if !errors.Is(err, cause) || tally != (Tally{Lines: 7}) || strings.Count(o.readOut(t), "\n") != 7 {
		t.Fatalf("%v, %+v, want the first 7 results\n%s", err, tally, o.readOut(t))
	}
	o.Do, o.Progress = echo, nil
	if tally, err := o.Run(t.Context()); err != nil || tally != (Tally{Before: 7, Lines: 40}) {
		t.Errorf("%v, %+v, want 33 results more", err, tally)
	}
}

// smallResults is a file on a disk with limited space.
type smallResults struct {
	results
	space *int
}

func (s smallResults) Write(p []byte) (int, error) {
	n, err := s.results.Write(p[:min(len(p), *s.space)])
	*s.space -= n
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

// TestOfflineFullDisk checks that a full disk is an error that leaves complete results, and that the rest follows
// later.
func TestOfflineFullDisk(t *testing.T) {
	o := offlineOf(t, mixedLines, echo)
	o.Together = 1
	if _, err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := o.readOut(t)
	opened := openResults
	t.Cleanup(func() { openResults = opened })
	for space := 0; space < len(whole); space += 331 {
		if err := os.Remove(o.Out); err != nil {
			t.Fatal(err)
		}
		left := space
		openResults = func(path string) (results, error) {
			f, err := opened(path)
			return smallResults{f, &left}, err
		}
		_, err := o.Run(t.Context())
		out := o.readOut(t)
		if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(whole, out) || out != "" && out[len(out)-1] != '\n' {
			t.Fatalf("%d bytes: %v, found\n%s", space, err, out)
		}
		openResults = opened
		if _, err := o.Run(t.Context()); err != nil || o.readOut(t) != whole {
			t.Fatalf("%d bytes: %v, found\n%s", space, err, o.readOut(t))
		}
	}
}

// TestTextScore checks that the score of a text is that of its tokens after the context. A token with parts of both
// counts, and so do all bytes of a character.
func TestTextScore(t *testing.T) {
	half, third, fourth := -math.Log(2), -math.Log(3), -math.Log(4)
	tokens := []struct {
		text string
		at   int
		p    *float64
		best float64 // that of the most probable token
	}{{"ab", 0, nil, 0}, {"c", 2, &third, third}, {"dé", 3, &half, half}, {"\xc3", 5, &fourth, fourth},
		{"\xa9", 5, &half, third}}
	var said struct {
		Model   string           `json:"model"`
		Choices []map[string]any `json:"choices"`
	}
	l := map[string]any{}
	var texts []string
	var values []*float64
	var top []map[string]float64
	var offsets []int
	for _, k := range tokens {
		texts, values, offsets = append(texts, k.text), append(values, k.p), append(offsets, k.at)
		top = append(top, map[string]float64{"x": k.best})
	}
	l["tokens"], l["token_logprobs"], l["top_logprobs"], l["text_offset"] = texts, values, top, offsets
	said.Model, said.Choices = "m", []map[string]any{{"logprobs": l}}
	body, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	whole := "abcdéé"
	for _, c := range []struct {
		context       int // bytes of the context in the whole text
		tokens, bytes int
		logProb       float64
	}{
		{0, 4, 6, third + half + fourth + half},
		{2, 4, 6, third + half + fourth + half},
		{3, 3, 5, half + fourth + half},
		{4, 3, 5, half + fourth + half}, // d belongs to the context, and its token also to the text
		{6, 2, 2, fourth + half},
	} {
		text := whole[c.context:]
		got, err := (&plainText{Context: whole[:c.context], Text: &text, Logprobs: true}).score(body)
		var s textScore
		if err == nil {
			err = json.Unmarshal(got, &s)
		}
		if err != nil || s.Tokens != c.tokens || s.Bytes != c.bytes || math.Abs(s.LogProb-c.logProb) > 1e-12 ||
			math.Abs(*s.Perplexity-math.Exp(-c.logProb/float64(c.tokens))) > 1e-9 || !s.Greedy ||
			math.Abs(*s.BitsPerByte+c.logProb/math.Ln2/float64(c.bytes)) > 1e-9 || len(s.Logprobs) != c.tokens {
			t.Errorf("context of %d bytes: %s, %v, want %+v", c.context, got, err, c)
		}
	}
}
