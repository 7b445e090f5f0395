package rows_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/rows"
)

// askRows posts a body with a content type.
func askRows(s *servetest.Site, path, kind, body string) (int, string, string) {
	s.T.Helper()
	status, header, data := s.Send(http.MethodPost, path, kind, strings.NewReader(body))
	return status, header.Get("Content-Type"), string(data)
}

// alone returns a predictor's output for rows without a server.
func alone(t testing.TB, p *rows.Predictor, q rows.Query, text string) string {
	t.Helper()
	var out bytes.Buffer
	q.Rows, q.Out = strings.NewReader(text), &out
	if err := p.Answer(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestPredict checks that rows as JSON, CSV and JSONL are answered with the same bytes as by the network without a
// server, that networks are listed with their descriptions, that requests for them and for language models are not
// mixed up, and that errors name row and column.
func TestPredict(t *testing.T) {
	nets := servetest.TestPredictors(t)
	s := servetest.SiteOf(t, serve.Options{Predictors: nets, MaxRows: 50, MaxBody: 1 << 16}, servetest.Model(t, "tiny"))
	table := servetest.Machine(30)
	each := servetest.RowsOf(table)
	lines := strings.Join(each, "\n")
	for i := range nets {
		p := &nets[i]
		want := alone(t, p, rows.Query{Format: "jsonl", As: "jsonl"}, lines)
		got := servetest.Post[rows.Prediction](s, "/v1/predict",
			`{"model":"`+p.Name+`","rows":[`+strings.Join(each, ",\n")+`]}`)
		var data strings.Builder
		for _, line := range got.Data {
			data.Write(line)
			data.WriteString("\n")
		}
		if data.String() != want || got.Usage.Rows != 30 || got.Model != p.Name || got.Notes == nil {
			t.Errorf("%s: found %d bytes of %d rows, want %d", p.Name, data.Len(), got.Usage.Rows, len(want))
		}
		status, kind, text := askRows(s, "/v1/predict?as=csv&all=true&model="+p.Name, "text/csv", table)
		if want := alone(t, p, rows.Query{Format: "csv", As: "csv", All: true}, table); status != http.StatusOK ||
			text != want || !strings.HasPrefix(kind, "text/csv") {
			t.Errorf("%s: found %d, %s, %d bytes, want %d", p.Name, status, kind, len(text), len(want))
		}
	}
	if _, _, text := askRows(s, "/v1/predict?as=jsonl", "application/x-ndjson", lines); text !=
		alone(t, &nets[0], rows.Query{Format: "jsonl", As: "jsonl"}, lines) {
		t.Error("lines of JSON are answered otherwise")
	}
	_, _, list := s.Do(http.MethodGet, "/v1/models", "")
	for _, want := range []string{
		`{"id":"tiny"`, `{"id":"machine"`, `"task":"anomaly"`, `"name":"load","kind":"number"`,
	} {
		if !strings.Contains(string(list), want) {
			t.Errorf("the models are %s, want %s", list, want)
		}
	}
	if status, _, data := s.Do(http.MethodGet, "/v1/models/sales", ""); status != http.StatusOK ||
		!strings.Contains(string(data), `"horizon":2`) {
		t.Errorf("found %d, %s", status, data)
	}
	for _, c := range []struct{ path, kind, body, want string }{
		{"/v1/predict", "", `{"rows":[{"load":1,"vibration":1},{"load":"high","vibration":1}]}`,
			`400 line 2, column load: found \"high\", want a number|"param":"rows[1].load"`},
		{"/v1/predict", "", `{"rows":[{"load":1,"vibration":1},7]}`, `400 rows[1]: found 7, want an object`},
		{"/v1/predict", "", `{"rows":[{"load":1}]}`, `400 "message":"found the columns load; want vibration, too"`},
		{"/v1/predict", "", `{"rows":[]}`, "400 rows: found none"},
		{"/v1/predict", "", `{}`, "400 rows: found none"},
		{"/v1/predict", "", `{"rows":{"load":1}}`, "400 rows: found a JSON object, want a list"},
		{"/v1/predict", "", `{"model":"tiny","rows":[{}]}`, `404 model: found \"tiny\", want a network of hippo fit`},
		{"/v1/predict", "", `{"as":"xml","rows":[{}]}`, "400 as: found"},
		{"/v1/predict?format=xml", "", "", "400 format: found"},
		{"/v1/predict", "text/csv", "load,vibration\n1,x\n",
			`400 line 2, column vibration: found \"x\"|"param":"vibration"`},
		{"/v1/predict", "text/csv", servetest.Machine(51), "400 line 52: found more than 50 rows"},
		{"/v1/predict", "text/csv", strings.Repeat("x", 1<<16+1), "413 the body"},
		{"/v1/predict", "audio/wav", "x", `400 "code":"invalid_rows"`},
		{"/v1/completions", "", `{"model":"machine","prompt":"a"}`, `400 model: found \"machine\", a network for rows`},
		{"/v1/predict/stream?model=holes", "", "", "400 model: \\\"holes\\\" sees a whole series first"},
		{"/v1/predict/stream?model=x", "", "", "404 model: found"},
		{"/v1/predict/stream", "", `{"load":"x","vibration":1}`, `400 line 1, column load|"param":"load"`},
		{"/v1/predict/stream", "", ``, `400 "message":"found no object`},
	} {
		status, _, text := askRows(s, c.path, c.kind, c.body)
		for _, want := range strings.Split(c.want, "|") {
			want = strings.TrimPrefix(want, fmt.Sprint(status, " "))
			if !strings.Contains(text, want) {
				t.Errorf("%s %.60q: found %d %s, want %s", c.path, c.body, status, text, want)
			}
		}
	}
	servetest.WaitUntil(t, func() bool {
		return servetest.Figures(t, s.Hippo.Admin())[`hippo_requests_total{route="POST /v1/predict",status="413"}`] == 1
	})
	all := servetest.Figures(t, s.Hippo.Admin())
	if all[`hippo_tokens_total{kind="read",model="sales"}`] != 60 || all["hippo_row_streams"] != 0 {
		t.Errorf("found %v rows read, %v streams", all[`hippo_tokens_total{kind="read",model="sales"}`],
			all["hippo_row_streams"])
	}
	if _, err := serve.New(serve.Options{Predictors: nets}, servetest.Model(t, "sales")); err == nil {
		t.Error("a model and a network of one name: no error")
	}
	only, err := serve.New(serve.Options{Predictors: nets[:1]})
	if err != nil {
		t.Fatal(err)
	}
	only.Close()
}

// rowStreamOf is a stream of rows to a server. It reads answers as they arrive.
type rowStreamOf struct {
	t      *testing.T
	rows   *io.PipeWriter
	answer *http.Response
	lines  *bufio.Reader
	cancel context.CancelFunc
}

// openStream begins a stream with one row.
func openStream(s *servetest.Site, path, accept, row string) *rowStreamOf {
	s.T.Helper()
	ctx, cancel := context.WithCancel(s.T.Context())
	in, out := io.Pipe()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, in)
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	go io.WriteString(out, row+"\n")
	answer, err := s.Client().Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	x := &rowStreamOf{s.T.(*testing.T), out, answer, bufio.NewReader(answer.Body), cancel}
	s.T.Cleanup(func() {
		cancel()
		answer.Body.Close()
	})
	return x
}

// line returns the next line of the answer, or "" after the last one.
func (x *rowStreamOf) line() string {
	x.t.Helper()
	line, err := x.lines.ReadString('\n')
	if err != nil && err != io.EOF {
		return "cut: " + err.Error()
	}
	return line
}

// TestPredictStream checks that a client that sends each row only after the previous answer gets the network's output
// for all rows so far, in one request, as lines or as events, and new forecasts after each row. Two streams do not
// interfere. An error in the middle is reported in a line, and ends the stream.
func TestPredictStream(t *testing.T) {
	nets := servetest.TestPredictors(t)[:2]
	s := servetest.SiteOf(t, serve.Options{Predictors: nets, MaxStreams: 2}, servetest.Model(t, "tiny"))
	each := servetest.RowsOf(servetest.Machine(12))
	other := servetest.RowsOf(servetest.Machine(40))[20:]
	for i, per := range []int{1, 2} { // answers per row
		p := &nets[i]
		want := strings.SplitAfter(alone(t, p, rows.Query{Format: "jsonl", As: "jsonl", Live: true},
			strings.Join(each, "\n")), "\n")
		wantOther := strings.SplitAfter(alone(t, p, rows.Query{Format: "jsonl", As: "jsonl", Live: true},
			strings.Join(other, "\n")), "\n")
		x := openStream(s, "/v1/predict/stream?model="+p.Name, "", each[0])
		y := openStream(s, "/v1/predict/stream?model="+p.Name, "text/event-stream", other[0])
		if kind := y.answer.Header.Get("Content-Type"); kind != "text/event-stream" {
			t.Errorf("found %s", kind)
		}
		for n := range each {
			if n > 0 {
				io.WriteString(x.rows, each[n]+"\n")
				io.WriteString(y.rows, other[n]+"\n")
			}
			for k := range per {
				if got := x.line(); got != want[n*per+k] {
					t.Fatalf("%s, row %d: found %q, want %q", p.Name, n, got, want[n*per+k])
				}
				if got := y.line() + y.line(); got != "data: "+wantOther[n*per+k]+"\n" {
					t.Fatalf("%s, row %d: found the event %q, want %q", p.Name, n, got, wantOther[n*per+k])
				}
			}
		}
		if status, _, text := askRows(s, "/v1/predict/stream?model="+p.Name, "", each[0]); status !=
			http.StatusTooManyRequests {
			t.Errorf("a third stream: found %d, %s", status, text)
		}
		y.rows.Close()
		if got := y.line() + y.line() + y.line(); got != "data: [DONE]\n\n" {
			t.Errorf("found the end %q", got)
		}
		io.WriteString(x.rows, `{"load":"x","vibration":1}`+"\n")
		if got := x.line(); !strings.Contains(got, `"message":"line 13, column load: found \"x\", want a number"`) {
			t.Errorf("found %q", got)
		}
		if got := x.line(); got != "" {
			t.Errorf("behind an error: found %q", got)
		}
		servetest.WaitUntil(t, func() bool { return s.Hippo.Rows.Streams.Taken() == 0 })
	}
}

// TestPredictStreamEnds checks that a stream whose client is silent for too long gets an error and is closed, that one
// whose client disconnects leaves nothing behind, and that an open one ends at once at shutdown.
func TestPredictStreamEnds(t *testing.T) {
	net := servetest.TestPredictors(t)[:1]
	each := servetest.RowsOf(servetest.Machine(3))
	s := servetest.SiteOf(t, serve.Options{Predictors: net, StreamIdle: time.Second}, servetest.Model(t, "tiny"))
	x := openStream(s, "/v1/predict/stream", "", each[0])
	if got := x.line() + x.line(); !strings.Contains(got, `"code":"stream_idle"`) { // the first row may also be late
		t.Errorf("a silent client: found %q", got)
	}
	servetest.WaitUntil(t, func() bool { return s.Hippo.Rows.Streams.Taken()+s.Hippo.Rows.Admission.Running() == 0 })

	s = servetest.SiteOf(t, serve.Options{Predictors: net}, servetest.Model(t, "tiny"))
	x = openStream(s, "/v1/predict/stream", "", each[0])
	x.line()
	x.cancel()
	servetest.WaitUntil(t, func() bool { return s.Hippo.Rows.Streams.Taken()+s.Hippo.Rows.Admission.Running() == 0 })

	x = openStream(s, "/v1/predict/stream", "", each[0])
	x.line()
	s.Hippo.Drain()
	if got := x.line(); !strings.Contains(got, `"code":"shutting_down"`) {
		t.Errorf("a server that ends: found %q", got)
	}
	servetest.WaitUntil(t, func() bool { return s.Hippo.Rows.Streams.Taken()+s.Hippo.Rows.Admission.Running() == 0 })
}

// TestPredictKeys checks that predictions need the scope predict, and that rows count as tokens of the key.
func TestPredictKeys(t *testing.T) {
	net := servetest.TestPredictors(t)[:1]
	alice, secret := serve.NewKey("alice", serve.ScopePredict)
	alice.Tokens = 10
	bob, bobs := serve.NewKey("bob", serve.ScopeCompletions)
	s := servetest.SiteOf(t, serve.Options{Predictors: net, Keys: []serve.Key{alice, bob}}, servetest.Model(t, "tiny"))
	body := `{"rows":[` + strings.Join(servetest.RowsOf(servetest.Machine(12)), ",") + `]}`
	for _, c := range []struct {
		key  string
		want int
	}{{"", 401}, {bobs, 403}, {secret, 200}, {secret, 429}} {
		s.Key = c.key
		if status, _, data := s.Do(http.MethodPost, "/v1/predict", body); status != c.want {
			t.Errorf("found %d, want %d: %s", status, c.want, data)
		}
	}
}

// FuzzPredict checks that no body of rows, in any format, crashes the server or causes a server error, and that answers
// are JSON.
func FuzzPredict(f *testing.F) {
	nets := servetest.TestPredictors(f)[:2]
	s := servetest.SiteOf(f, serve.Options{Predictors: nets, MaxRows: 100}, servetest.Model(f, "tiny"))
	each := servetest.RowsOf(servetest.Machine(3))
	f.Add(uint8(0), `{"rows":[`+strings.Join(each, ",")+`],"all":true}`)
	f.Add(uint8(0), `{"model":"sales","rows":[{"load":[1,2,3],"vibration":[1,null,2]}]}`)
	f.Add(uint8(1), servetest.Machine(3))
	f.Add(uint8(1), "load;vibration\n1,5;\xff\n")
	f.Add(uint8(2), strings.Join(each, "\n"))
	f.Add(uint8(3), strings.Join(each, "\n")+"\n{\"load\":1e400}")
	f.Add(uint8(4), "vibration,load\n1e30,-1e30\nNA,\n")
	f.Add(uint8(5), "RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00"+
		"\x01\x00\x08\x00data\x02\x00\x00\x00\x01\x02")
	paths := []string{"/v1/predict", "/v1/predict?format=csv&model=sales", "/v1/predict?format=jsonl",
		"/v1/predict/stream?model=sales", "/v1/predict/stream?format=csv", "/v1/predict?format=wav"}
	f.Fuzz(func(t *testing.T, path uint8, body string) {
		own := *s
		own.T = t
		status, _, data := own.Do(http.MethodPost, paths[int(path)%len(paths)], body)
		if status >= http.StatusInternalServerError {
			t.Errorf("found %d: %s", status, data)
		}
		for line := range bytes.Lines(data) {
			if !json.Valid(line) {
				t.Errorf("found %s", line)
			}
		}
	})
}
