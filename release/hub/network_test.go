package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/hubtest"
)

// isWeightsRequest reports whether a request is for the file of weights.
func isWeightsRequest(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/resolve/") && strings.HasSuffix(r.URL.Path, "model.safetensors")
}

// brokenHub returns a hub with another response to the first requests for weights.
func brokenHub(t testing.TB, times int32,
	answer func(w http.ResponseWriter, r *http.Request, content []byte)) (*hubtest.Hub, hubtest.Files) {
	files := modelFiles(t)
	h := newHub(t, files)
	var n atomic.Int32
	h.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if !isWeightsRequest(r) || n.Add(1) > times {
			return false
		}
		answer(w, r, files["model.safetensors"])
		return true
	}
	return h, files
}

// sendPart announces the whole file and sends a part.
func sendPart(w http.ResponseWriter, content []byte, n int) {
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	w.Write(content[:n])
	w.(http.Flusher).Flush()
}

// cut closes a connection in the middle of a response.
func cut(w http.ResponseWriter) { panic(http.ErrAbortHandler) }

// ranges returns the values of the header Range of all requests for weights.
func ranges(h *hubtest.Hub) (found []string) {
	for _, r := range h.Requests() {
		if isWeightsRequest(r) {
			found = append(found, r.Header.Get("Range"))
		}
	}
	return found
}

// TestCutIsResumed truncates a file. Only the rest is requested.
func TestCutIsResumed(t *testing.T) {
	t.Parallel()
	h, files := brokenHub(t, 1, func(w http.ResponseWriter, r *http.Request, content []byte) {
		sendPart(w, content, 100_000)
		cut(w)
	})
	c := client(t, h, "")
	found := mustPull(t, c, testRepo)
	wantContent(t, found, "model.safetensors", files["model.safetensors"])
	if got := ranges(h); len(got) != 2 || got[0] != "" || !strings.HasPrefix(got[1], "bytes=") || got[1] == "bytes=0-" {
		t.Errorf("asked for the ranges %q, want all and then the rest", got)
	}
}

// TestStallIsResumed stops sending without closing the connection.
func TestStallIsResumed(t *testing.T) {
	t.Parallel()
	ended := make(chan bool)
	h, files := brokenHub(t, 1, func(w http.ResponseWriter, r *http.Request, content []byte) {
		sendPart(w, content, 70_000)
		<-r.Context().Done() // until the client gives up
		close(ended)
	})
	c := client(t, h, "")
	c.stall = 200 * time.Millisecond
	var notes []string
	c.Watch.Note = func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	found := mustPull(t, c, testRepo)
	<-ended
	wantContent(t, found, "model.safetensors", files["model.safetensors"])
	if all := strings.Join(notes, "\n"); !strings.Contains(all, "no byte came for 200ms; retries in") {
		t.Errorf("notes:\n%s", all)
	}
}

// TestDripEnds: a hub that sends a few bytes now and then, or hangs up after some, ends a pull with an error after a
// few attempts, not after days. What has come stays, and the next pull resumes there.
func TestDripEnds(t *testing.T) {
	t.Parallel()
	const came = 70_000
	for name, send := range map[string]func(w http.ResponseWriter, r *http.Request, rest []byte){
		"drips": func(w http.ResponseWriter, r *http.Request, rest []byte) {
			for i := 0; r.Context().Err() == nil; i++ {
				sendPart(w, rest[i:], 1)
				time.Sleep(10 * time.Millisecond)
			}
		},
		"hangs up": func(w http.ResponseWriter, r *http.Request, rest []byte) { sendPart(w, rest, 5) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := true
			h, files := brokenHub(t, tries+1, func(w http.ResponseWriter, r *http.Request, content []byte) {
				if first {
					first = false
					sendPart(w, content, came)
					return
				}
				var from int
				if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err != nil || from < came {
					t.Errorf("found the range %q, want one from %d", r.Header.Get("Range"), came)
				}
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
				w.Header().Set("Content-Length", fmt.Sprint(len(content)-from))
				w.WriteHeader(http.StatusPartialContent)
				send(w, r, content[from:])
			})
			c := client(t, h, "")
			c.stall, c.slow = 100*time.Millisecond, 10_000
			var notes []string
			c.Watch.Note = func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
			_, err := pull(t, c, testRepo)
			wantError(t, err, "the same command resumes there", "after 5 earlier attempts")
			if all := strings.Join(notes, "\n"); name == "drips" && !strings.Contains(all, "the hub is too slow: ") {
				t.Errorf("notes:\n%s", all)
			}
			wantContent(t, mustPull(t, c, testRepo), "model.safetensors", files["model.safetensors"])
		})
	}
}

// TestBusyHubIsWaitedFor responds with statuses that ask to try later.
func TestBusyHubIsWaitedFor(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	h := newHub(t, files)
	answers := []int{503, 429, 500, 0, 502, 429, 504, 0} // the first four for the list
	var n atomic.Int32
	h.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		i := int(n.Add(1)) - 1
		if i >= len(answers) || answers[i] == 0 {
			return false
		}
		w.Header().Set("Retry-After", "0")
		http.Error(w, "busy", answers[i])
		return true
	}
	wantContent(t, mustPull(t, client(t, h, ""), testRepo), "config.json", files["config.json"])
	if got := int(n.Load()); got != len(answers)+2 {
		t.Errorf("%d requests, want %d", got, len(answers)+2)
	}
}

// TestRetryAfterIsObeyed waits as long as the hub asks, but not forever.
func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	var first, second atomic.Int64 // times in nanoseconds
	h, _ := brokenHub(t, 1, func(w http.ResponseWriter, r *http.Request, _ []byte) {
		first.Store(time.Now().UnixNano())
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	answered := h.Intercept
	h.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if answered(w, r) {
			return true
		}
		if isWeightsRequest(r) {
			second.Store(time.Now().UnixNano())
		}
		return false
	}
	mustPull(t, client(t, h, ""), testRepo)
	if waited := time.Duration(second.Load() - first.Load()); waited < time.Second {
		t.Errorf("waited %v, want a second", waited)
	}

	h, _ = brokenHub(t, 1, func(w http.ResponseWriter, r *http.Request, _ []byte) {
		w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	})
	_, err := pull(t, client(t, h, ""), testRepo)
	wantError(t, err, "429", "asks to wait for ")
}

// TestHubThatStaysDown: the pull fails after several attempts and names the cause.
func TestHubThatStaysDown(t *testing.T) {
	t.Parallel()
	h, _ := brokenHub(t, 1000, func(w http.ResponseWriter, r *http.Request, content []byte) {
		http.Error(w, "no", http.StatusBadGateway)
	})
	_, err := pull(t, client(t, h, ""), testRepo)
	wantError(t, err, "model.safetensors", "502", "after 5 earlier attempts")
	if got := len(ranges(h)); got != tries {
		t.Errorf("%d requests, want %d", got, tries)
	}
}

// TestHubWithoutRangesEnds truncates a file at the same byte each time and supports no ranges: the pull fails, too.
func TestHubWithoutRangesEnds(t *testing.T) {
	t.Parallel()
	h, _ := brokenHub(t, 1000, func(w http.ResponseWriter, r *http.Request, content []byte) {
		sendPart(w, content, 1000)
		cut(w)
	})
	_, err := pull(t, client(t, h, ""), testRepo)
	wantError(t, err, "unexpected EOF", "1000 of 200072 bytes are stored")

	h, files := brokenHub(t, 1, func(w http.ResponseWriter, r *http.Request, content []byte) {
		sendPart(w, content, 1000)
		cut(w)
	})
	broken := h.Intercept
	h.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		r.Header = r.Header.Clone() // Requests are to show what was asked for
		if broken(w, r) {
			return true
		}
		if isWeightsRequest(r) {
			w.Write(files["model.safetensors"])
			return true
		}
		return false
	}
	wantContent(t, mustPull(t, client(t, h, ""), testRepo), "model.safetensors", files["model.safetensors"])
}

// TestLies sends other sizes and contents than the list. None of the files gets a name.
func TestLies(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, content []byte)
		want   string
	}{
		"another content": {func(w http.ResponseWriter, r *http.Request, content []byte) {
			other := bytes.Clone(content)
			other[len(other)/2] ^= 1
			w.Write(other)
		}, "found the sum "},
		"announced longer": {func(w http.ResponseWriter, r *http.Request, content []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)+1))
			w.Write(content)
		}, "it sends 200073 bytes, want 200072"},
		"shorter": {func(w http.ResponseWriter, r *http.Request, content []byte) {
			w.Write(content[:10])
		}, "it sends 10 bytes, want 200072"},
		"endless": {func(w http.ResponseWriter, r *http.Request, content []byte) {
			for r.Context().Err() == nil {
				if _, err := w.Write(content); err != nil {
					return
				}
			}
		}, "it sends more than 200072 bytes"},
		"another range": {func(w http.ResponseWriter, r *http.Request, content []byte) {
			w.Header().Set("Content-Range", "bytes 5-200071/200072")
			w.WriteHeader(http.StatusPartialContent)
		}, "want a part from byte 0"},
		"another total": {func(w http.ResponseWriter, r *http.Request, content []byte) {
			w.Header().Set("Content-Range", "bytes 0-9/10")
			w.WriteHeader(http.StatusPartialContent)
		}, "it has 10 bytes, want 200072"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, files := brokenHub(t, 1000, x.answer)
			c := client(t, h, "")
			_, err := pull(t, c, testRepo)
			wantError(t, err, "model.safetensors", x.want)
			wantTree(t, c) // the weights come first
			_, err = c.Cache.Find(mustParse(t, testRepo))
			wantError(t, err, "no model org/model")

			h.Intercept = nil
			wantContent(t, mustPull(t, c, testRepo), "model.safetensors", files["model.safetensors"])
		})
	}
}

// TestSpoiltRestIsFetchedAgain finds invalid or too many bytes of an earlier pull.
func TestSpoiltRestIsFetchedAgain(t *testing.T) {
	t.Parallel()
	for _, left := range []int{1000, 200_072, 300_000} {
		files := modelFiles(t)
		c := client(t, newHub(t, files), "")
		r := c.Cache.repo(testRepo)
		if err := os.MkdirAll(r.blobs(), 0o777); err != nil {
			t.Fatal(err)
		}
		part := r.blob(hubtest.Sum("model.safetensors", files["model.safetensors"])) + incomplete
		if err := os.WriteFile(part, make([]byte, left), 0o666); err != nil {
			t.Fatal(err)
		}
		wantContent(t, mustPull(t, c, testRepo), "model.safetensors", files["model.safetensors"])
	}
}

// TestInterruptedPullGoesOn interrupts a pull in the middle of a file.
func TestInterruptedPullGoesOn(t *testing.T) {
	t.Parallel()
	h, files := brokenHub(t, 1, func(w http.ResponseWriter, r *http.Request, content []byte) {
		sendPart(w, content, 50_000)
		<-r.Context().Done()
	})
	c := client(t, h, "")
	ctx, cancel := context.WithCancel(context.Background())
	c.Watch.Bytes = func(done, total int64) {
		if done >= 50_000 {
			cancel()
		}
	}
	plan, err := c.Plan(ctx, mustParse(t, testRepo))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Pull(ctx, plan, false)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want that of the context", err)
	}
	wantTree(t, c, fmt.Sprintf("models--org--model/blobs/%s.incomplete 50000",
		hubtest.Sum("model.safetensors", files["model.safetensors"])))
	c.Watch.Bytes = nil
	wantContent(t, mustPull(t, c, testRepo), "model.safetensors", files["model.safetensors"])
	if got := ranges(h); len(got) != 2 || got[1] != "bytes=50000-" {
		t.Errorf("asked for the ranges %q", got)
	}
}

// TestFullDisk reports a full disk before the pull if the free space is known, and otherwise when a write fails. The
// received bytes stay.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	h := newHub(t, files)
	c := client(t, h, "")
	c.space = func(string) (int64, error) { return 1000, nil }
	_, err := pull(t, c, testRepo)
	wantError(t, err, "needs 200115 bytes, and 1000 are free", "HF_HUB_CACHE")
	if len(ranges(h)) != 0 {
		t.Error("it fetched all the same")
	}

	c.space = func(string) (int64, error) { return 0, errors.ErrUnsupported }
	room := 100_000
	c.write = func(f *os.File, p []byte) (int, error) {
		if room -= len(p); room < 0 {
			return 0, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
		}
		return f.Write(p)
	}
	_, err = pull(t, c, testRepo)
	wantError(t, err, "no space left on device", "of 200072 bytes are stored")
	if got := ranges(h); len(got) != 1 {
		t.Errorf("%d requests, want one: a full disk does not become free by trying", len(got))
	}
	c.write = (*os.File).Write
	wantContent(t, mustPull(t, c, testRepo), "model.safetensors", files["model.safetensors"])
	if got := ranges(h); len(got) != 2 || got[1] == "" {
		t.Errorf("asked for the ranges %q, want the second to be the rest", got)
	}
}

// TestErrorPageKeepsWhatCame responds to the request for the rest with a page of another size: the received bytes stay.
func TestErrorPageKeepsWhatCame(t *testing.T) {
	t.Parallel()
	asked := 0
	h, files := brokenHub(t, 2, func(w http.ResponseWriter, r *http.Request, content []byte) {
		if asked++; asked == 1 {
			sendPart(w, content, 50_000)
			cut(w)
		}
		fmt.Fprint(w, "down for maintenance")
	})
	c := client(t, h, "")
	_, err := pull(t, c, testRepo)
	wantError(t, err, "it sends 20 bytes, want 200072", "of 200072 bytes are stored")
	wantContent(t, mustPull(t, c, testRepo), "model.safetensors", files["model.safetensors"])
	if got := ranges(h); len(got) != 3 || got[2] != got[1] || got[2] == "" {
		t.Errorf("asked for the ranges %q, want the third to be the second again", got)
	}
}
