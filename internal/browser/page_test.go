package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/web"
)

const chatTemplate = `{% for m in messages %}<{{ m.role }}>{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`

// newModel returns a small model with random weights over bytes. source is its template, or "".
func newModel(t *testing.T, name, source string) *host.Model {
	t.Helper()
	return newModelOf(t, name, source, tokenizer.Bytes())
}

func newModelOf(t *testing.T, name, source string, tok tokenizer.Tokenizer) *host.Model {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DState = 16, 256, "h3,attention", 2, 8
	net, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	net.Init(1)
	settings := &chat.Settings{}
	if source != "" {
		parsed, err := template.Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		temperature := 0.7
		settings.Source, settings.Template = source, parsed
		settings.Defaults.Temperature = &temperature
	}
	runner := session.NewScheduler(net, session.SchedulerOptions{Waiting: 1 << 20})
	t.Cleanup(runner.Close)
	texts, err := store.New(t.Context(), store.Options{
		Model: net, Identity: session.Identify(net, tok), Memory: 64 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	return host.NewModel(host.ModelOptions{
		Name: name, Net: net, Tokenizer: tok, Settings: settings, Runner: runner, Texts: texts,
	})
}

// newServer serves models with the page.
func newServer(t *testing.T, o serve.Options, models ...*host.Model) *httptest.Server {
	t.Helper()
	o.Pages = web.Chat()
	s, err := serve.New(o, models...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return serveHandler(t, s)
}

// serveHandler serves until the test ends. Windows of the site are closed before.
func serveHandler(t *testing.T, s http.Handler) *httptest.Server {
	t.Helper()
	site := httptest.NewServer(s)
	t.Cleanup(site.Close)
	return site
}

var (
	browserOnce sync.Once
	browser     context.Context
)

// start starts the browser that all tests share.
func start(t *testing.T) context.Context {
	t.Helper()
	browserOnce.Do(func() {
		options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
			chromedp.NoSandbox, chromedp.WindowSize(1280, 800), chromedp.Flag("force-color-profile", "srgb"))
		if path := os.Getenv("CHROMIUM"); path != "" {
			options = append(options, chromedp.ExecPath(path))
		}
		allocator, _ := chromedp.NewExecAllocator(context.Background(), options...)
		browser, _ = chromedp.NewContext(allocator)
	})
	if err := chromedp.Do(browser); err != nil {
		t.Fatal(err)
	}
	return browser
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser != nil {
		chromedp.Cancel(browser) // also ends the browser's processes
	}
	os.Exit(code)
}

// tab is a window used by a test.
type tab struct {
	t    *testing.T
	ctx  context.Context
	site string

	mu       sync.Mutex
	requests []*network.EventRequestWillBeSent
	said     []string // to the console
}

// patience is how long a test waits for an expected event.
const patience = 90 * time.Second

// newTab opens the page in a window with its own storage, and waits until it knows the models.
func newTab(t *testing.T, site *httptest.Server) *tab {
	t.Helper()
	p := newTabOnly(t, site)
	p.until(`document.querySelector('#model option')`)
	return p
}

// newTabOnly is newTab, but does not wait for the models.
func newTabOnly(t *testing.T, site *httptest.Server) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(start(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return openTab(t, ctx, site)
}

// sameSeeds makes the pages of a window draw the same sequence of seeds for replies in every run of a test, so that
// failures can be reproduced.
const sameSeeds = `{
	const real = crypto.getRandomValues.bind(crypto);
	crypto.getRandomValues = (to) => {
		if (!(to instanceof Uint32Array)) return real(to);
		const drawn = Number(sessionStorage.getItem('drawn')) + 1;
		sessionStorage.setItem('drawn', drawn);
		return to.fill(2654435769 * drawn);
	};
}`

// openTab records what the page of a window does, and opens it.
func openTab(t *testing.T, ctx context.Context, site *httptest.Server) *tab {
	t.Helper()
	p := &tab{t: t, ctx: ctx, site: site.URL}
	err := chromedp.Listen(ctx, func(event any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch event := event.(type) {
		case *network.EventRequestWillBeSent:
			p.requests = append(p.requests, event)
		case *runtime.EventExceptionThrown:
			details := event.ExceptionDetails
			p.said = append(p.said, fmt.Sprintf("%s %+v", details.Text, details.Exception))
		case *runtime.EventConsoleAPICalled:
			for _, argument := range event.Args {
				p.said = append(p.said, string(argument.Value))
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	script := page.AddScriptToEvaluateOnNewDocumentParams{Source: sameSeeds}
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, script); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.Navigate(site.URL))
	p.until(`document.getElementById('theme') && document.readyState === 'complete'`)
	t.Cleanup(p.checkOrigin)
	return p
}

// checkOrigin fails a test whose page sent a request to another site, or threw an error.
func (p *tab) checkOrigin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		u, err := url.Parse(r.Request.URL)
		if err != nil || u.Scheme != "data" && u.Scheme != "blob" && u.Scheme+"://"+u.Host != p.site {
			p.t.Errorf("the page asked for %.200s", r.Request.URL)
		}
	}
	for _, text := range p.said {
		p.t.Errorf("the page said %.400s", text)
	}
}

// bodies returns the bodies of the requests to a path.
func (p *tab) bodies(path string) (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		if r.Request.URL != p.site+path {
			continue
		}
		var text strings.Builder
		for _, part := range r.Request.PostDataEntries {
			text.Write(part.Bytes)
		}
		all = append(all, text.String())
	}
	return all
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	err := chromedp.Do(ctx, actions...)
	for err != nil && strings.Contains(err.Error(), "Could not find node") { // the page has redrawn the element
		err = chromedp.Do(ctx, actions...)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// get returns the value of an expression in the page, or that of its promise.
func get[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits for an expression, or its promise, to be true. Meanwhile the window may go to another page.
func (p *tab) until(expression string) {
	p.t.Helper()
	const pause = 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for ; ; time.Sleep(pause) {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("(async () => Boolean(await ("+expression+")))()",
			chromedp.EvalAwaitPromise))
		switch {
		case err == nil && holds:
			return
		case ctx.Err() != nil:
			p.t.Fatalf("waited in vain for %s (%v)\n%s", expression, err, get[string](p, "document.body.innerText"))
		case err != nil && !strings.Contains(err.Error(), "navigated"):
			p.t.Fatalf("%s: %v", expression, err)
		}
	}
}

// click clicks on the first element that a selector finds.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.until(`document.querySelector("` + selector + `")`)
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// text returns the text of the first element that a selector finds.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return get[string](p, `document.querySelector(`+quoted(selector)+`).innerText`)
}

// choose clicks on the first element that a selector finds and that has the given text.
func (p *tab) choose(selector, text string) {
	p.t.Helper()
	one := `[...document.querySelectorAll(` + quoted(selector) + `)].find((one) => one.innerText === ` +
		quoted(text) + `)`
	p.until(one)
	get[bool](p, one+`.click() ?? true`)
}

// press presses keys in the element with the focus.
func (p *tab) press(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
}

// enter presses Enter as a keyboard does, so that a page can prevent the newline.
func (p *tab) enter(modifiers int64) {
	p.t.Helper()
	down := input.DispatchKeyEventParams{
		Type: input.DispatchKeyEventTypeKeyDown, Key: "Enter", Code: "Enter", Text: "\r",
		WindowsVirtualKeyCode: 13, Modifiers: modifiers,
	}
	up := down
	up.Type, up.Text = input.DispatchKeyEventTypeKeyUp, ""
	for _, event := range []input.DispatchKeyEventParams{down, up} {
		if _, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, event); err != nil {
			p.t.Fatal(err)
		}
	}
}

const replyEnded = `document.querySelectorAll('.message.assistant').length > 0 && !document.querySelector('.running')`

// fill enters a text into a field at once.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.do(chromedp.Focus(chromedp.CSS(selector)))
	if _, err := chromedp.Call(p.ctx, input.InsertText, input.InsertTextParams{Text: text}); err != nil {
		p.t.Fatal(err)
	}
}

// send sends a message and waits for the end of the reply.
func (p *tab) send(text string) {
	p.t.Helper()
	p.fill("#composer-text", text)
	p.enter(0)
	p.until(`document.querySelectorAll('.message.user').length > 0 && ` + replyEnded)
}

// limit sets the maximum length of replies.
func (p *tab) limit(tokens string) {
	p.t.Helper()
	p.click("#open-settings")
	p.fill("#set-max_tokens", tokens)
	p.click("#open-settings")
}
