package hub

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// DefaultEndpoint is the hub to use unless HF_ENDPOINT names another.
const DefaultEndpoint = "https://huggingface.co"

// Client downloads from a hub into a cache.
type Client struct {
	Cache Cache
	Watch Watch

	endpoint *url.URL
	token    string
	http     *http.Client
	stall    time.Duration // a connection without data for this long is closed
	wait     time.Duration // delay before the second attempt; doubled each time
	slow     int64         // bytes per second: a connection that is slower over 2*stall is closed

	// Tests replace these.
	transport http.RoundTripper
	space     func(dir string) (int64, error)
	write     func(f *os.File, p []byte) (int, error)
}

// Watch reports the progress of a pull. Its functions may be nil.
type Watch struct {
	Bytes func(done, total int64)          // for all files, including those already cached
	File  func(f File, fetched bool)       // a file is complete
	Note  func(format string, args ...any) // messages for a waiting user
}

const (
	defaultStall = 30 * time.Second
	defaultWait  = time.Second
	defaultSlow  = 1 << 10
	tries        = 6               // attempts in a row without a byte: the waits sum to half a minute
	longestWait  = 5 * time.Minute // that a hub may request
)

// NewClient returns a client of the hub at endpoint. The default scheme is https, or http if the host is this machine.
// The token may be empty.
func NewClient(endpoint, token string, cache Cache) (*Client, error) {
	if !strings.Contains(endpoint, "://") {
		scheme := "https://"
		if host, _, _ := strings.Cut(endpoint, "/"); isThisMachine(host) {
			scheme = "http://"
		}
		endpoint = scheme + endpoint
	}
	u, err := url.Parse(strings.TrimRight(endpoint, "/"))
	isHub := err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil
	if !isHub || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("found %.200q, want the address of a hub such as %s", endpoint, DefaultEndpoint)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // so that sizes and ranges refer to the file
	c := &Client{
		Cache: cache, endpoint: u, token: token, stall: defaultStall, wait: defaultWait, slow: defaultSlow,
		transport: transport, space: disk.Space, write: (*os.File).Write,
	}
	c.http = &http.Client{Transport: guard{c}, CheckRedirect: c.mayFollow}
	return c, nil
}

// isThisMachine reports whether a host, with or without a port, is localhost or a loopback address.
func isThisMachine(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// FromEnvironment returns a client configured by the environment variables of the hub's tools: HF_ENDPOINT, HF_TOKEN,
// HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE, HF_HUB_DOWNLOAD_TIMEOUT, HF_HUB_OFFLINE.
func FromEnvironment() (*Client, error) {
	if isOn("HF_HUB_OFFLINE") {
		return nil, errors.New("HF_HUB_OFFLINE is set: nothing is fetched")
	}
	cache, err := DefaultCache()
	if err != nil {
		return nil, err
	}
	token, err := readToken()
	if err != nil {
		return nil, err
	}
	c, err := NewClient(cmp.Or(os.Getenv("HF_ENDPOINT"), DefaultEndpoint), token, cache)
	if err != nil {
		return nil, fmt.Errorf("HF_ENDPOINT: %w", err)
	}
	if text := os.Getenv("HF_HUB_DOWNLOAD_TIMEOUT"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds > 0 && seconds < 1e6) {
			return nil, fmt.Errorf("HF_HUB_DOWNLOAD_TIMEOUT: found %.50q, want seconds", text)
		}
		c.stall = time.Duration(seconds * float64(time.Second))
	}
	return c, nil
}

// isOn interprets an environment variable as the hub's tools do.
func isOn(variable string) bool {
	switch strings.ToUpper(os.Getenv(variable)) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// readToken returns the user's token, or "" if there is none.
func readToken() (string, error) {
	token := cmp.Or(os.Getenv("HF_TOKEN"), os.Getenv("HUGGING_FACE_HUB_TOKEN"))
	if token == "" && !isOn("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
		path := underHome(os.Getenv("HF_TOKEN_PATH"))
		if path == "" {
			home, err := hubHome()
			if err != nil {
				return "", err
			}
			path = filepath.Join(home, "token")
		}
		text, err := disk.ReadText(path, 1<<12)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("the token: %w", err)
		}
		token = string(text)
	}
	token = strings.TrimSpace(token)
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("the token: found spaces or characters in it that no token has")
	}
	return token, nil
}

// guard sends the token only to the hub, also after redirects.
type guard struct{ c *Client }

// RoundTrip sends a request.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	hub := g.c.endpoint
	if req.URL.Scheme == hub.Scheme && req.URL.Host == hub.Host && g.c.token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+g.c.token)
	}
	return g.c.transport.RoundTrip(req)
}

// errRedirect reports that a redirect was not followed.
var errRedirect = errors.New("redirection refused")

// mayFollow rejects redirects from https to another scheme, and more than 10 in a row.
func (c *Client) mayFollow(req *http.Request, via []*http.Request) error {
	const most = 10
	switch {
	case len(via) >= most:
		return fmt.Errorf("%w: more than %d in a row", errRedirect, most)
	case req.URL.Scheme != "https" && !(req.URL.Scheme == "http" && c.endpoint.Scheme == "http"):
		return fmt.Errorf("%w: it leads from https to %.200q", errRedirect, req.URL.Scheme+"://"+req.URL.Host)
	}
	return nil
}

// transient is an error after which the same request may succeed.
type transient struct {
	err   error
	after time.Duration // delay that the hub requested
}

func (e *transient) Error() string { return e.err.Error() }
func (e *transient) Unwrap() error { return e.err }

// errStalled reports that a request was canceled because no data arrived.
var errStalled = errors.New("no byte came")

// errSlow reports that data arrives so slowly that a pull would take days.
var errSlow = errors.New("the hub is too slow")

// NotFoundError reports that a hub does not have a model, revision or file, or that it is not public.
type NotFoundError struct{ text string }

func (e *NotFoundError) Error() string { return e.text }

// notFound returns a NotFoundError.
func notFound(format string, args ...any) error { return &NotFoundError{fmt.Sprintf(format, args...)} }

// responseBody is the body of a response. Reads fail if no data arrives for too long, or if it arrives too slowly.
type responseBody struct {
	*http.Response
	ctx    context.Context
	stall  time.Duration
	slow   int64
	timer  *time.Timer
	cancel context.CancelCauseFunc
	waited time.Duration // time waited for the received bytes
	came   int64
}

// get sends a GET request. header may be nil. The caller must close the response.
func (c *Client) get(ctx context.Context, address string, header http.Header) (*responseBody, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	a := &responseBody{ctx: ctx, stall: c.stall, slow: c.slow, cancel: cancel}
	a.timer = time.AfterFunc(c.stall, func() { cancel(errStalled) })
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err == nil {
		for key, values := range header {
			req.Header[key] = values
		}
		req.Header.Set("User-Agent", "hippo")
		req.Header.Set("Accept-Encoding", "identity")
		a.Response, err = c.http.Do(req)
	}
	if err != nil {
		err = a.cause(err)
		a.stop()
		return nil, err
	}
	if err := refusal(a); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// Read reads the body.
func (a *responseBody) Read(p []byte) (int, error) {
	begun := time.Now()
	a.timer.Reset(a.stall)
	n, err := a.Body.Read(p)
	a.timer.Stop() // processing the bytes may take longer
	if err != nil && err != io.EOF {
		return n, a.cause(err)
	}
	a.waited, a.came = a.waited+time.Since(begun), a.came+int64(n)
	if a.waited < 2*a.stall || err != nil {
		return n, err
	}
	if want := int64(a.waited.Seconds() * float64(a.slow)); a.came < want {
		return n, &transient{err: fmt.Errorf("%w: %d bytes came in %v, want at least %d", errSlow, a.came,
			a.waited.Round(time.Millisecond), want)}
	}
	a.waited, a.came = 0, 0
	return n, nil
}

func (a *responseBody) stop() {
	a.timer.Stop()
	a.cancel(nil)
}

func (a *responseBody) close() {
	a.stop()
	a.Body.Close() // nothing is lost: the needed part has been read
}

// cause returns why a request ended, without its address, which may contain a signature.
func (a *responseBody) cause(err error) error {
	switch cause := context.Cause(a.ctx); {
	case errors.Is(cause, errStalled):
		return &transient{err: fmt.Errorf("%w for %v", errStalled, a.stall)}
	case cause != nil:
		return cause
	}
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	if errors.Is(err, errRedirect) || errors.As(err, &certificate) || errors.As(err, &name) && name.IsNotFound {
		return err
	}
	return &transient{err: err}
}

// refusal returns an error for an unsuccessful status, nil otherwise.
func refusal(a *responseBody) error {
	code := a.StatusCode
	if code == http.StatusOK || code == http.StatusPartialContent {
		return nil
	}
	said := a.Status
	if text := a.Header.Get("X-Error-Message"); text != "" {
		said += ": " + brief.Line(text)
	}
	switch kind := a.Header.Get("X-Error-Code"); {
	case kind == "GatedRepo" || code == http.StatusForbidden:
		return fmt.Errorf("the hub responds with %s; accept the terms on the model's page, and set HF_TOKEN to your "+
			"token", said)
	case kind == "RevisionNotFound":
		return notFound("the hub responds with %s; it has no such revision", said)
	case code == http.StatusUnauthorized:
		return notFound("the hub responds with %s; there is no such model, or it needs a token: set HF_TOKEN", said)
	case code == http.StatusNotFound:
		return notFound("the hub responds with %s; it has no such model or file", said)
	case code == http.StatusRequestedRangeNotSatisfiable:
		return errRange
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return &transient{fmt.Errorf("the hub responds with %s", said), retryAfter(a.Header.Get("Retry-After"))}
	}
	return fmt.Errorf("the hub responds with %s", said)
}

// errRange reports that a hub does not have the requested part of a file.
var errRange = errors.New("the hub has no such part of the file")

// retryAfter parses a number of seconds or a date, and returns the delay.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// again waits before another attempt, longer each time. It returns err if another attempt is pointless.
func (c *Client) again(ctx context.Context, what string, err error, try int) error {
	var t *transient
	switch {
	case !errors.As(err, &t):
		return err
	case try >= tries-1:
		return fmt.Errorf("%w, after %d earlier attempts", err, try)
	case t.after > longestWait:
		return fmt.Errorf("%w, and asks to wait for %v", err, t.after.Round(time.Second))
	}
	wait := max(c.wait<<try, t.after)
	c.note("%s: %v; retries in %v", what, brief.Line(err.Error()), wait.Round(time.Millisecond))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

func (c *Client) note(format string, args ...any) {
	if c.Watch.Note != nil {
		c.Watch.Note(format, args...)
	}
}
