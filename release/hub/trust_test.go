package hub

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/hubtest"
)

// TestToken sends the token to the hub, and not to the server that the hub redirects to.
func TestToken(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	h := newHub(t, files)
	h.Token = "hf_secret"
	_, err := pull(t, client(t, h, ""), testRepo)
	wantError(t, err, "accept the terms", "HF_TOKEN")
	h.Token, h.Intercept = "hf_secret", func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "" {
			http.Error(w, "", http.StatusUnauthorized)
			return true
		}
		return false
	}
	_, err = pull(t, client(t, h, ""), testRepo)
	wantError(t, err, "it needs a token: set HF_TOKEN")
	wantContent(t, mustPull(t, client(t, h, "hf_secret"), testRepo), "config.json", files["config.json"])

	other := hubtest.New(t.Cleanup) // the same address, another port
	other.Repos = h.Repos
	h.Files = other.URL
	wantContent(t, mustPull(t, client(t, h, "hf_secret"), testRepo), "config.json", files["config.json"])
	if len(other.Requests()) != 3 {
		t.Errorf("%d requests to the other server, want 3", len(other.Requests()))
	}
	for _, r := range other.Requests() {
		for key, values := range r.Header {
			if strings.Contains(strings.Join(values, ""), "hf_secret") {
				t.Errorf("the token went to another server in %s", key)
			}
		}
	}
}

// TestErrorsHideSignatures redirects to a signed address at which nobody is: the error does not show the signature.
func TestErrorsHideSignatures(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	h := newHub(t, modelFiles(t))
	h.Files = gone.URL
	_, err := pull(t, client(t, h, "hf_secret"), testRepo)
	wantError(t, err, "model.safetensors")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error %q shows a secret", err)
	}
}

// TestNoWayOutOfHTTPS redirects from https to http.
func TestNoWayOutOfHTTPS(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	plain := newHub(t, files)
	h := newHub(t, files)
	secure := httptest.NewUnstartedServer(h)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that is to fail
	secure.StartTLS()
	t.Cleanup(secure.Close)
	h.URL = secure.URL
	c := client(t, h, "")
	_, err := pull(t, c, testRepo)
	wantError(t, err, "certificate")
	c.transport = secure.Client().Transport
	mustPull(t, c, testRepo)

	c = client(t, h, "")
	c.transport = secure.Client().Transport
	h.Files = plain.URL
	_, err = pull(t, c, testRepo)
	wantError(t, err, "redirection refused", "from https to")
	if n := len(plain.Requests()); n != 0 {
		t.Errorf("%d requests went out without encryption", n)
	}
}

// TestEndlessListing refuses a list without end, and one that is no list.
func TestEndlessListing(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	h.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		io.WriteString(w, `{"sha": "`)
		line := bytes.Repeat([]byte("a"), 1<<20)
		for r.Context().Err() == nil {
			if _, err := w.Write(line); err != nil {
				break
			}
		}
		return true
	}
	c := client(t, h, "")
	_, err := pull(t, c, testRepo)
	wantError(t, err, "more than 33554432 bytes")

	for text, want := range map[string]string{
		"<html>":         "invalid character",
		"{}":             "found the commit",
		`{"sha": 5}`:     "cannot unmarshal",
		`{"siblings": 5`: "unexpected end",
	} {
		h := newHub(t, nil)
		h.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
			io.WriteString(w, text)
			return true
		}
		_, err := pull(t, client(t, h, ""), testRepo)
		wantError(t, err, "what the hub says of org/model", want)
	}
}

// TestUnknownModel says what the hub does not have.
func TestUnknownModel(t *testing.T) {
	t.Parallel()
	c := client(t, newHub(t, modelFiles(t)), "")
	_, err := pull(t, c, "org/none")
	wantError(t, err, "org/none", "404", "no such model")
	_, err = pull(t, c, testRepo+":v9")
	wantError(t, err, "org/model", "no such revision")
}

// TestEndpoint reads the addresses of hubs.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://hf.example/":    "https://hf.example",
		"http://mirror:8080/hf/": "http://mirror:8080/hf",
		"hf.example":             "https://hf.example",
		"localhost:99":           "http://localhost:99",
		"127.0.0.1":              "http://127.0.0.1",
		"[::1]:80":               "http://[::1]:80",
	} {
		c, err := NewClient(text, "", Cache{})
		if err != nil || c.endpoint.String() != want {
			t.Errorf("%s: found %v (%v), want %s", text, c, err, want)
		}
	}
	for _, text := range []string{"", "ftp://x", "https://", "https://user:pass@x", "https://x/?a=b", "file:///etc"} {
		if _, err := NewClient(text, "", Cache{}); err == nil {
			t.Errorf("%q is taken for a hub", text)
		}
	}
}
