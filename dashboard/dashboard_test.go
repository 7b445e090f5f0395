package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/web"
)

// write writes a file below a folder.
func write(t *testing.T, text string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// appendTo appends text to a file.
func appendTo(t *testing.T, text string, path ...string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(path...), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// shown returns a dashboard of a folder.
func shown(t *testing.T, dir string) *Handler {
	t.Helper()
	h, err := New(Options{Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// get sends a request to a dashboard.
func get(h *Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "127.0.0.1:8081"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// decoded returns the decoded response to a request.
func decoded[T any](t *testing.T, h *Handler, path string) T {
	t.Helper()
	w := get(h, path)
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: %d %v: %.300s", path, w.Code, err, w.Body)
	}
	return v
}

// runID returns the id of a run in a folder.
func runID(path ...string) string { return filepath.ToSlash(filepath.Join(path...)) }

// TestStatesOfRuns checks that a run is running while a process holds its folder, ended when its updates are made or it
// has a result, and stopped otherwise. The list begins with the run that was written to last, and includes nested
// folders.
func TestStatesOfRuns(t *testing.T) {
	dir := t.TempDir()
	const settings = "train:\n  steps: 20\n  time: 0s\n"
	measures := func(step int) string { return fmt.Sprintf(`{"step":%d,"loss":2.5,"elapsed_s":1}`+"\n", step) }
	for name, step := range map[string]int{"ended": 20, "stopped": 10, "a/b/held": 10, "task": 3} {
		write(t, measures(step), dir, name, metricsFile)
		write(t, settings, dir, name, configFile)
	}
	write(t, "# card", dir, "ended", cardFile)
	write(t, "{}", dir, "task", resultFile)
	write(t, `{"step":23,"epoch":1.5,"valid_accuracy":6.6,"elapsed_s":1}`+"\n", dir, "going", metricsFile)
	write(t, "epochs: 3\ntime: 4s\n", dir, "going", configFile)
	write(t, "no run", dir, "other", "file.txt")
	lock, err := disk.LockDir(filepath.Join(dir, "a/b/held"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	list := decoded[struct{ Runs []Run }](t, shown(t, dir), "/api/runs")
	got := map[string]string{}
	for _, r := range list.Runs {
		got[strings.TrimPrefix(r.ID, filepath.ToSlash(dir)+"/")] = fmt.Sprint(r.State, " ", r.Step, " of ", r.Steps)
	}
	going := list.Runs[slices.IndexFunc(list.Runs, func(r Run) bool { return strings.HasSuffix(r.ID, "going") })]
	if going.Done != 0.5 || going.Right == nil || *going.Right != 6.6 {
		t.Errorf("found %+v of a task, want half of it done and 6.6 %% right", going)
	}
	want := map[string]string{
		"ended": "ended 20 of 20", "stopped": "stopped 10 of 20",
		"a/b/held": "running 10 of 20", "task": "ended 3 of 20", "going": "stopped 23 of 0",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// TestCurvesGrow checks that new measurements appear at the next request, and an incomplete line once it is complete. A
// value that is not finite is null. A run that was resumed from an earlier step loses its later measurements.
func TestCurvesGrow(t *testing.T) {
	dir := t.TempDir()
	write(t, `{"step":1,"loss":3,"elapsed_s":0.5}`+"\n"+`{"step":2,"loss":null,"elapsed_s":1}`+"\nrubbish\n"+
		`{"step":3,"sample":"so <b>it</b> goes","elapsed_s":1.5}`+"\n"+`{"step":4,"lo`, dir, "r", metricsFile)
	h, path := shown(t, dir), "/api/run?id="+runID(dir, "r")
	c := decoded[Curves](t, h, path)
	loss := c.Curves["loss"]
	if len(loss.Value) != 2 || *loss.Value[0] != 3 || loss.Value[1] != nil || loss.Seconds[1] != 1 {
		t.Errorf("loss %+v, want 3 and null", loss)
	}
	if len(c.Samples) != 1 || c.Samples[0].Text != "so <b>it</b> goes" || c.Bad != 1 {
		t.Errorf("samples %v, %d bad lines", c.Samples, c.Bad)
	}
	tag := get(h, path).Header().Get("ETag")
	if w := get(h, path, "If-None-Match", tag); w.Code != http.StatusNotModified {
		t.Errorf("status %d of a run that has not changed, want 304", w.Code)
	}
	appendTo(t, `ss":2,"elapsed_s":2}`+"\n", dir, "r", metricsFile)
	if loss := decoded[Curves](t, h, path).Curves["loss"]; len(loss.Value) != 3 || loss.Step[2] != 4 {
		t.Errorf("loss %+v after a line came to its end, want a third", loss)
	}
	if err := disk.WriteBytes(filepath.Join(dir, "r", metricsFile),
		[]byte(`{"step":1,"loss":3,"elapsed_s":0.5}`+"\n")); err != nil {
		t.Fatal(err)
	}
	if loss := decoded[Curves](t, h, path).Curves["loss"]; len(loss.Value) != 1 {
		t.Errorf("loss %+v of a file that was replaced, want one value", loss)
	}
	tag = get(h, path).Header().Get("ETag")
	write(t, `{"step":1,"loss":4,"elapsed_s":0.5}`+"\n"+`{"step":2,"loss":5}`+"\n", dir, "r", metricsFile)
	w := get(h, path, "If-None-Match", tag) // the file was overwritten in place
	if loss := decoded[Curves](t, h, path).Curves["loss"]; w.Code != http.StatusOK || *loss.Value[0] != 4 {
		t.Errorf("status %d, loss %+v of a file that was written over, want 4 and 5", w.Code, loss)
	}
}

// TestUnchanged checks that a file is read again only after it was written to or replaced.
func TestUnchanged(t *testing.T) {
	dir, reads := t.TempDir(), 0
	path := filepath.Join(dir, "file")
	var kept cached[string]
	want := func(text string, count int) {
		t.Helper()
		got, err := kept.of(path, func() (string, error) {
			reads++
			data, err := os.ReadFile(path)
			return string(data), err
		})
		if got != text || reads != count || (err != nil) != (text == "") {
			t.Errorf("got %q, %v after %d reads, want %q after %d", got, err, reads, text, count)
		}
	}
	want("", 0)
	write(t, "one", path)
	want("one", 1)
	want("one", 1)
	appendTo(t, " two", path)
	want("one two", 2)
	if err := disk.WriteBytes(path, []byte("another")); err != nil {
		t.Fatal(err)
	}
	want("another", 3)
	want("another", 3)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("", 3)
}

// TestLongLines checks that a line that is too long is skipped and that the next lines are read.
func TestLongLines(t *testing.T) {
	dir := t.TempDir()
	long := `{"step":1,"sample":"` + strings.Repeat("x", 2*maxLine) + "\"}\n"
	write(t, long+`{"step":2,"loss":1}`+"\n", dir, metricsFile)
	c := decoded[Curves](t, shown(t, dir), "/api/run?id="+runID(dir))
	if len(c.Samples) != 0 || c.Bad != 1 || len(c.Curves["loss"].Value) != 1 {
		t.Errorf("%d samples, %d bad lines, %d losses, want 0, 1 and 1", len(c.Samples), c.Bad,
			len(c.Curves["loss"].Value))
	}
}

// TestSpikesAreSeen checks that a curve that is reduced to few points keeps its spikes.
func TestSpikesAreSeen(t *testing.T) {
	s := &series{}
	for i := range 100_000 {
		v := 2.0
		switch i {
		case 12_345:
			v = 50
		case 77_777:
			v = -3
		}
		s.step, s.seconds, s.value = append(s.step, int64(i)), append(s.seconds, 0), append(s.value, v)
	}
	c := s.thin(100)
	if len(c.Value) > 100 {
		t.Errorf("%d points, want at most 100", len(c.Value))
	}
	found := map[float64]int64{}
	for i, v := range c.Value {
		if i > 0 && c.Step[i] <= c.Step[i-1] {
			t.Fatalf("step %d after %d", c.Step[i], c.Step[i-1])
		}
		found[*v] = c.Step[i]
	}
	if found[50] != 12_345 || found[-3] != 77_777 {
		t.Errorf("found the values %v, want 50 at 12345 and -3 at 77777", found)
	}
}

// TestSettingsThatDiffer checks that nested settings have keys with dots, and that different settings are marked.
func TestSettingsThatDiffer(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a": "seed: 1\ntrain:\n  steps: 20\n  # said\n  batch_size: 4\n",
		"b": "seed: 1\ntrain:\n  steps: 30\nextra: [x, y]\n",
	} {
		write(t, "", dir, name, metricsFile)
		write(t, text, dir, name, configFile)
	}
	table := decoded[[]Setting](t, shown(t, dir), "/api/settings?ids="+runID(dir, "a")+"&ids="+runID(dir, "b"))
	var got []string
	for _, s := range table {
		text := s.Key
		for _, v := range s.Values {
			if v == nil {
				text += " none"
			} else {
				text += " " + *v
			}
		}
		got = append(got, fmt.Sprint(text, " ", s.Differ))
	}
	want := "extra none [x y] true; seed 1 1 false; train.batch_size 4 none true; train.steps 20 30 true"
	if strings.Join(got, "; ") != want {
		t.Errorf("found %s, want %s", strings.Join(got, "; "), want)
	}
}

// TestReports checks that the page about a run is its card, in which generated text stays text, and that the run's
// pictures are served but no other files.
func TestReports(t *testing.T) {
	dir := t.TempDir()
	write(t, "", dir, "r", metricsFile)
	write(t, "# Card\n\n<script>alert(1)</script>\n\n[x](javascript:alert(2))\n\n"+
		"```\n<script>alert(3)</script>\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", dir, "r", cardFile)
	write(t, "png", dir, "r", "curve.png")
	write(t, "secret", dir, "r", "model.safetensors")
	write(t, "secret", dir, "secret.png")
	h, at := shown(t, dir), "/report"+runID(dir, "r")
	w := get(h, at+"/")
	body := w.Body.String()
	if w.Code != http.StatusOK || !strings.Contains(body, "<td>2</td>") || strings.Contains(body, "<script>alert") ||
		strings.Contains(body, "javascript:") || !strings.Contains(body, "&lt;script&gt;alert(3)") {
		t.Errorf("%d: %s", w.Code, body)
	}
	if w := get(h, at+"/curve.png"); w.Code != http.StatusOK || w.Body.String() != "png" {
		t.Errorf("the picture: %d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/model.safetensors", "/..%2fsecret.png", "/../secret.png", "/%2e%2e/secret.png"} {
		if w := get(h, at+path); w.Code == http.StatusOK || w.Body.String() == "secret" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestWhoMayLook checks that pages of other origins are refused, that only ids of runs are accepted, and that each
// response has a strict policy.
func TestWhoMayLook(t *testing.T) {
	dir := t.TempDir()
	write(t, "", dir, "r", metricsFile)
	h := shown(t, dir)
	for path, status := range map[string]int{
		"/": 200, "/assets/main.js": 200, "/assets/theme.js": 200, "/assets/uplot/uPlot.js": 200, "/nothing": 404,
		"/assets/": 404, "/assets/chat.js": 404, "/api/run?id=/etc": 404, "/api/run": 404,
		"/api/settings?ids=../x": 404, "/report/etc/": 404, "/api/run?points=5&id=" + runID(dir, "r"): 400,
	} {
		w := get(h, path)
		if w.Code != status {
			t.Errorf("%s: status %d, want %d", path, w.Code, status)
		}
		if w.Header().Get("Content-Security-Policy") != web.Policy {
			t.Errorf("%s has no policy", path)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "http://evil.example/api/runs", nil)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("status %d of another name, want 403", w.Code)
	}
	if w := get(h, "/api/runs", "Origin", "http://evil.example"); w.Code != http.StatusForbidden {
		t.Errorf("status %d of another origin, want 403", w.Code)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no folder was accepted")
	}
}

// TestManyLookAtOnce checks that many clients can read while a run writes.
func TestManyLookAtOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, "", dir, "r", metricsFile)
	h := shown(t, dir)
	const lines = 100
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			last := 0
			for range lines {
				var c Curves
				if err := json.Unmarshal(get(h, "/api/run?id="+runID(dir, "r")).Body.Bytes(), &c); err != nil {
					t.Error(err)
					return
				}
				for i, v := range c.Curves["loss"].Value {
					if *v != float64(i) {
						t.Errorf("value %d is %v", i, *v)
						return
					}
				}
				if n := len(c.Curves["loss"].Value); n < last {
					t.Errorf("%d values after %d", n, last)
				} else {
					last = n
				}
			}
		})
	}
	for i := range lines {
		appendTo(t, fmt.Sprintf(`{"step":%d,"loss":%d}`+"\n", i, i), dir, "r", metricsFile)
	}
	all.Wait()
}
