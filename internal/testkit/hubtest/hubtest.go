// Package hubtest runs a model hub on this machine, for tests. It answers as the Hugging Face hub does, and can be made
// to misbehave.
package hubtest

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Hub is a server with repositories. Its fields must be set before the first request.
type Hub struct {
	URL   string
	Repos map[string]Repo // by org/name
	Token string          // required token, "" for none
	Files string          // address of another server that file requests are redirected to, "" for none

	// Intercept, if not nil, may answer a request instead of the hub. It reports whether it did.
	Intercept func(w http.ResponseWriter, r *http.Request) bool

	mu   sync.Mutex
	seen []*http.Request
}

// Repo is a repository: revisions by name, each with its files.
type Repo map[string]Files

// Files holds the contents of files by path.
type Files map[string][]byte

// New starts a hub. It passes a function that stops the hub to cleanup, which is usually T.Cleanup.
func New(cleanup func(func())) *Hub {
	h := &Hub{Repos: map[string]Repo{}}
	server := httptest.NewServer(h)
	h.URL = server.URL
	cleanup(server.Close)
	return h
}

// Commit returns the commit hash of a set of files. Different contents have different hashes.
func Commit(files Files) string {
	sum := sha1.New()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s\x00%d\x00%s", path, len(files[path]), files[path])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// IsLarge reports whether the hub stores a file outside of git.
func IsLarge(path string) bool {
	for _, ending := range []string{".safetensors", ".gguf", ".bin", ".pt"} {
		if strings.HasSuffix(path, ending) {
			return true
		}
	}
	return false
}

// Sum returns the name that a cache gives a file's content: the SHA-256 of a large file, git's id of a small one.
func Sum(path string, content []byte) string {
	if IsLarge(path) {
		sum := sha256.Sum256(content)
		return hex.EncodeToString(sum[:])
	}
	return gitID(content)
}

func gitID(content []byte) string {
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(content)), content...))
	return hex.EncodeToString(sum[:])
}

// Requests returns the requests received so far.
func (h *Hub) Requests() []*http.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// ServeHTTP answers a request.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.seen = append(h.seen, r)
	h.mu.Unlock()
	if h.Intercept != nil && h.Intercept(w, r) {
		return
	}
	if h.Token != "" && r.Header.Get("Authorization") != "Bearer "+h.Token {
		w.Header().Set("X-Error-Code", "GatedRepo")
		http.Error(w, "", http.StatusUnauthorized)
		return
	}
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	if rest, ok := strings.CutPrefix(path, "api/models/"); ok {
		name, revision, _ := strings.Cut(rest, "/revision/")
		h.list(w, name, revision)
		return
	}
	name, rest, _ := strings.Cut(path, "/resolve/")
	commit, file, _ := strings.Cut(rest, "/")
	if h.Files != "" {
		http.Redirect(w, r, h.Files+r.URL.EscapedPath()+"?signature=secret", http.StatusFound)
		return
	}
	file, err := url.PathUnescape(file)
	for _, files := range h.Repos[name] {
		if content, ok := files[file]; err == nil && ok && Commit(files) == commit {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
			return
		}
	}
	w.Header().Set("X-Error-Code", "EntryNotFound")
	http.Error(w, "", http.StatusNotFound)
}

// list answers with the files of a revision.
func (h *Hub) list(w http.ResponseWriter, name, revision string) {
	revision, err := url.PathUnescape(revision)
	var found Files
	for branch, files := range h.Repos[name] {
		if branch == revision || Commit(files) == revision {
			found = files
		}
	}
	if found == nil || err != nil {
		kind := "RepoNotFound"
		if h.Repos[name] != nil {
			kind = "RevisionNotFound"
		}
		w.Header().Set("X-Error-Code", kind)
		http.Error(w, "", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(Listing(name, found))
}

// Listing returns the hub's description of a revision with these files.
func Listing(name string, files Files) []byte {
	type large struct {
		Size        int    `json:"size"`
		SHA256      string `json:"sha256"`
		PointerSize int    `json:"pointerSize"`
	}
	type sibling struct {
		Path  string `json:"rfilename"`
		Size  int    `json:"size"`
		ID    string `json:"blobId"`
		Large *large `json:"lfs,omitempty"`
	}
	said := struct {
		ID    string    `json:"id"`
		SHA   string    `json:"sha"`
		Files []sibling `json:"siblings"`
	}{name, Commit(files), nil}
	for path, content := range files {
		s := sibling{Path: path, Size: len(content), ID: gitID(content)}
		if IsLarge(path) {
			s.Large = &large{len(content), Sum(path, content), 134}
		}
		said.Files = append(said.Files, s)
	}
	slices.SortFunc(said.Files, func(a, b sibling) int { return cmp.Compare(a.Path, b.Path) })
	text, err := json.Marshal(said)
	if err != nil {
		panic(err) // a mistake in this package
	}
	return text
}
