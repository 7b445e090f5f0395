package browser

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/serve/views"
	"github.com/hippo-ssm/hippo/web"
)

// newLiveServer serves a model with both pages, like hippo serve. Views may be wrapped.
func newLiveServer(t *testing.T, all []sessions.View) *httptest.Server {
	t.Helper()
	pages := web.Chat()
	maps.Copy(pages, figure.Live())
	s, err := serve.New(serve.Options{Pages: pages, Views: all}, newModel(t, "tiny", chatTemplate))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return serveHandler(t, s)
}

// newLive opens the page of sessions.
func newLive(t *testing.T) *tab {
	t.Helper()
	p := newTabOnly(t, newLiveServer(t, views.All()))
	p.do(chromedp.Navigate(p.site + "/explain"))
	p.until(`document.querySelector('#live-model option')`)
	return p
}

// pickIn selects a value of a list, as a person would.
func (p *tab) pickIn(selector, value string) {
	p.t.Helper()
	p.until(`document.querySelector(` + quoted(selector+" option") + `)`)
	get[bool](p, `(() => {
		const list = document.querySelector(`+quoted(selector)+`);
		list.focus();
		list.value = `+quoted(value)+`;
		return list.value === `+quoted(value)+` && list.dispatchEvent(new Event('change', { bubbles: true }));
	})()`)
}

// read makes the model read a text into the session.
func (p *tab) read(text string) {
	p.t.Helper()
	p.fill("#live-text", text)
	p.click("#live-read")
}

// quiet is an expression that is true if nothing is being computed.
const quiet = `document.querySelector('#page').getAttribute('aria-busy') === 'false'`

// noProblem is an expression that is true if no problem is shown.
const noProblem = `document.querySelector('#live-problem').hidden`

// view switches to another view and waits for it.
func (p *tab) view(name, figure string) {
	p.t.Helper()
	p.pickIn("#live-view", name)
	p.until(`document.getElementById('` + figure + `') && ` + quiet + ` && ` + noProblem)
}

// TestLiveSession checks that a text is read into a new session and its states are shown, that the pictures are updated
// token by token as the model writes, that text that another client reads into the session appears, and that another
// view can be chosen.
func TestLiveSession(t *testing.T) {
	p := newLive(t)
	p.read("Call me Ishmael. ")
	const tokens = `document.querySelectorAll('#text .token').length`
	p.until(tokens + ` === 17`)
	p.shown("state-0", "canvas")
	p.until(canvas("#state-0 canvas") + ` !== ''`)
	before := get[string](p, canvas("#state-0 canvas"))
	p.accessible("live")
	p.keepPicture("live")
	p.click("#live-write")
	p.until(tokens + ` > 20`)
	p.until(canvas("#state-0 canvas") + ` !== ` + quoted(before))
	p.click("#live-write") // stop
	p.until(`document.querySelector('#live-write').innerText === 'Write' && ` + quiet)
	if get[int](p, `document.querySelectorAll('section').length`) != 3 {
		t.Error("what was shown was not brought up to date, but shown again")
	}
	written := get[int](p, tokens)
	get[bool](p, `(async () => (await fetch('/v1/sessions/' + document.querySelector('#live-session').value + '/append',
		{ method: 'POST', body: JSON.stringify({ text: 'more' }) })).ok)()`)
	p.until(fmt.Sprintf("%s >= %d", tokens, written+4))
	p.view("influence", "influence-layer-0")
	if text := p.text("#page h1"); !strings.HasPrefix(text, "Influence") {
		t.Errorf("found the title %q", text)
	}
	p.do(chromedp.Reload()) // the address keeps what is shown
	p.until(`document.getElementById('influence-layer-0') &&
		document.querySelector('#live-view').value === 'influence'`)
	p.read("Some years ago, never mind")
	p.until(`document.querySelector('#live-text').value === ''`)
	p.pickIn("#live-tokens", "32")
	p.until(`document.querySelector('.notes li')?.innerText.includes('these are the last')`)
}

// TestLiveViews checks that each view of a session is drawn, in light, in dark and on a phone, accessibly, and is
// updated as the model writes, with the layer that was selected.
func TestLiveViews(t *testing.T) {
	p := newLive(t)
	p.read("Call me Ishmael. Some years ago")
	p.until(`document.querySelectorAll('#text .token').length === 31`)
	looks := func(where string) {
		t.Helper()
		p.accessible(where)
		p.keepPicture(strings.ReplaceAll(where, " ", "-"))
		get[bool](p, `(scrollTo({ top: 0, behavior: 'instant' }), true)`)
		p.keepPicture(strings.ReplaceAll(where, " ", "-") + "-top")
	}
	for _, v := range []struct{ name, figure, inside string }{
		{"influence", "influence-layer-0", "canvas.map"}, {"memory", "half-lives", ".uplot canvas"},
		{"lens", "lens-probability", "canvas.map"}, {"gradient", "gradient-added", "canvas.map"},
		{"surprise", "surprise-first", ".token"},
	} {
		p.do(chromedp.EmulateViewport(1280, 800))
		p.view(v.name, v.figure)
		for _, theme := range []string{"light", "dark"} {
			_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
			})
			if err != nil {
				t.Fatal(err)
			}
			p.until(`matchMedia('(prefers-color-scheme: ` + theme + `)').matches`)
			p.shown(v.figure, v.inside)
			looks(v.name + " " + theme)
		}
		p.do(chromedp.EmulateViewport(360, 640))
		p.until(`document.documentElement.clientWidth === 360 && document.documentElement.scrollWidth <= 360`)
		looks(v.name + " narrow")
	}
	p.do(chromedp.EmulateViewport(1280, 800))
	p.view("influence", "influence-layer-0")
	p.shown("influence-layer-0", "canvas.map")
	p.click("#influence-layer-0 [aria-label='Next (j)']")
	const picked = `document.querySelector('#influence-layer-0 select').selectedIndex`
	p.until(picked + ` === 1`)
	before := p.text("#page .words p")
	p.click("#live-write")
	p.until(`document.querySelector('#page .words p').innerText !== ` + quoted(before))
	p.click("#live-write")
	p.until(`document.querySelector('#live-write').innerText === 'Write' && ` + quiet)
	if n := get[int](p, picked); n != 1 {
		t.Errorf("found layer %d picked after the model wrote, want the one that was", n)
	}
}

// TestLiveKeyboard checks that without a mouse one can move from view to view, from layer to layer, to a token and to
// the tokens that it draws on.
func TestLiveKeyboard(t *testing.T) {
	p := newLive(t)
	p.do(chromedp.Focus(chromedp.CSS("#live-text")))
	p.press("Call me")
	p.enter(0)
	p.until(`document.querySelectorAll('#text .token').length === 7`)
	const focused = `document.activeElement`
	p.do(chromedp.Focus(chromedp.CSS("#live-fork")))
	p.press("\t")
	p.until(focused + `.id === 'live-view'`)
	p.press("i") // the first view with this letter
	p.until(`document.getElementById('drawn-layer-0') && ` + quiet)
	p.press("\t")
	p.until(focused + `.id === 'live-tokens'`)
	p.press("\t")
	p.until(focused + `.matches('#live-choices select')`)
	p.press("m")
	p.until(quiet + ` && document.querySelector('#live-choices select').value === 'mean' &&
		document.querySelector('#drawn-layer-0 .range')?.innerText.includes('mean')`)
	p.shown("drawn-layer-0", ".token")
	p.do(chromedp.Focus(chromedp.CSS("#drawn-layer-0 .tokens")))
	for range 3 {
		get[bool](p, focused+`.dispatchEvent(new KeyboardEvent('keydown',
			{ key: 'ArrowRight', bubbles: true })) || true`)
	}
	p.until(`document.getElementById('said').innerText.includes('token 2')`)
	p.enter(0)
	p.until(`document.querySelector('#drawn-layer-0 .picked').innerText.startsWith('For token 2')`)
	p.press("j")
	p.until(`document.querySelector('#drawn-layer-0 .picks select').selectedIndex === 1`)
	p.do(chromedp.Focus(chromedp.CSS("#live-back")))
	p.enter(0)
	p.until(`location.pathname === '/' && document.querySelector('#composer-text')`)
}

// These expressions report the number of sessions that the server keeps to explain conversations.
const (
	oneSession = `(async () => (await (await fetch('/v1/sessions')).json()).data.length === 1)()`
	noSession  = `(async () => (await (await fetch('/v1/sessions')).json()).data.length === 0)()`
)

// deleteConversation deletes the first conversation in the list, in one step, because the list is rebuilt when another
// window has saved.
func (p *tab) deleteConversation() {
	p.t.Helper()
	get[bool](p, `(() => {
		document.querySelector(".conversations [aria-label^='Delete']").click();
		document.querySelector('.conversations .danger').click();
		return true;
	})()`)
}

// TestConversationIsExplained checks that the page of a conversation has a link to its explanation, which the keyboard
// reaches, with the text that the server has read; that text written in another window appears there; and that a link
// leads back. The server keeps one session for a conversation, and none when it is deleted.
func TestConversationIsExplained(t *testing.T) {
	p := newTab(t, newLiveServer(t, views.All()))
	p.limit("12")
	p.send("Call me Ishmael")
	p.until(`document.querySelector('#explain')?.getAttribute('href').startsWith('/explain?conversation=')`)
	reply := p.text(".message.assistant .prose")
	p.do(chromedp.Focus(chromedp.CSS("#explain")))
	p.enter(0)
	p.until(`location.pathname === '/explain' && document.querySelectorAll('#text .token').length > 20`)
	if text := p.text("#text .tokens"); !strings.Contains(text, "Call me Ishmael") || reply == "" {
		t.Errorf("found the text %q, want the message and the reply %q", text, reply)
	}
	for _, id := range []string{"live-text", "live-read", "live-write"} {
		if get[bool](p, `document.getElementById('`+id+`').checkVisibility()`) {
			t.Errorf("%s is there for a session that follows a conversation", id)
		}
	}
	p.accessible("conversation")
	p.view("lens", "lens-probability")
	if !get[bool](p, oneSession) {
		t.Error("the server has not one session")
	}

	// Another window of the same browser continues the conversation.
	other := p.another()
	other.until(`document.querySelector('.conversations .title')`)
	other.click(".conversations .title")
	other.until(`document.querySelector('.message.assistant')`)
	p.view("state", "text")
	before := get[int](p, `document.querySelectorAll('#text .token').length`)
	other.fill("#composer-text", "More of it")
	other.enter(0)
	other.until(`document.querySelectorAll('.message.assistant').length === 2 && ` + replyEnded)
	p.until(fmt.Sprintf(`document.querySelectorAll('#text .token').length > %d && `, before+20) +
		`document.querySelector('#text .tokens').innerText.includes('More of it') && ` + quiet)
	p.until(oneSession)

	p.click("#live-back")
	p.until(`location.pathname === '/' && document.querySelectorAll('.message.user').length === 2`)
	p.deleteConversation()
	p.until(noSession)
}

// TestDeletedEarly checks that a conversation that is deleted before the page knows whether the server explains leaves
// no session.
func TestDeletedEarly(t *testing.T) {
	live := newLiveServer(t, views.All())
	var slow atomic.Bool
	known := make(chan struct{})
	p := newTab(t, serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead && r.URL.Path == "/explain" && slow.Load() {
			<-known
		}
		live.Config.Handler.ServeHTTP(w, r)
	})))
	p.limit("12")
	p.send("Call me Ishmael")
	p.click("#explain")
	p.until(`location.pathname === '/explain' && document.querySelectorAll('#text .token').length > 20`)
	p.until(oneSession)
	slow.Store(true)
	p.click("#live-back")
	p.until(`location.pathname === '/' && document.querySelector(".conversations [aria-label^='Delete']")`)
	p.deleteConversation()
	p.until(`!document.querySelector('.conversations .title, .conversations .danger')`)
	close(known)
	p.until(noSession)
}

// TestLivePageWithoutViews checks that a server without the page of sessions has no link to it.
func TestLivePageWithoutViews(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	if get[bool](p, `Boolean(document.querySelector('#explain'))`) {
		t.Error("there is a link to a page that there is not")
	}
}

// answered returns the time in milliseconds from a click to a picture in which an expression holds.
func (p *tab) answered(click, holds string) float64 {
	p.t.Helper()
	return get[float64](p, `(async () => {
		const begun = performance.now();
		`+click+`;
		while (!(`+holds+`)) {
			await new Promise(requestAnimationFrame);
			if (performance.now() - begun > 20000) return NaN;
		}
		await new Promise(requestAnimationFrame); // and it is painted
		return performance.now() - begun;
	})()`)
}

// worked returns how long the page has been working since Performance was enabled, in milliseconds.
func (p *tab) worked() float64 {
	p.t.Helper()
	all, err := chromedp.Call(p.ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, m := range all.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value * 1000
		}
	}
	p.t.Fatal("found no TaskDuration")
	return 0
}

// TestClicksAskNobody checks that a click needs no request: for another layer, another token, a measure that was shown
// or prefetched, and a view that was shown before. -v prints how long each took, and how much of that time the page was
// working.
func TestClicksAskNobody(t *testing.T) {
	p := newLive(t)
	p.read(strings.Repeat("Call me Ishmael. ", 8))
	p.until(`document.querySelectorAll('#text .token').length === 136`)
	p.view("lens", "lens-probability")
	p.view("influence", "influence-layer-0")
	p.shown("influence-layer-0", "canvas.map")
	p.shown("drawn-layer-0", ".token")
	asks := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		n := 0
		for _, r := range p.requests {
			if strings.Contains(r.Request.URL, "/explain?view=") {
				n++
			}
		}
		return n
	}
	p.until(`document.querySelector('#page').dataset.ready === 'influence'`) // the mean was prefetched
	before := asks()
	enable := performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}
	if _, err := chromedp.Call(p.ctx, performance.Enable, enable); err != nil {
		t.Fatal(err)
	}
	var took []float64
	for _, one := range []struct{ name, click, holds string }{
		{"another layer", `document.querySelector('#influence-layer-0 [aria-label="Next (j)"]').click()`,
			`document.querySelector('#influence-layer-0 .picks select').selectedIndex === 1 &&
				document.querySelector('#influence-layer-0 .caption').innerText.includes('(attention)')`},
		{"a token", `document.querySelector('#drawn-layer-0 .token:nth-of-type(9)').click()`,
			`document.querySelector('#drawn-layer-0 .picked').innerText.startsWith('For token 8')`},
		{"another measure", changed("#live-choices select", "mean"),
			`document.querySelector('#drawn-layer-0 .caption').innerText.includes('mean of the operator')`},
		{"the measure before", changed("#live-choices select", "share"),
			`document.querySelector('#drawn-layer-0 .caption').innerText.includes('the share of s in what the layer')`},
		{"the view before", changed("#live-view", "lens"), `document.getElementById('lens-probability')`},
	} {
		begun := p.worked()
		ms := p.answered(one.click, one.holds)
		if ms != ms {
			t.Fatalf("%s: waited in vain for %s", one.name, one.holds)
		}
		t.Logf("%s: %.1f ms, %.1f of them work", one.name, ms, p.worked()-begun)
		took = append(took, ms)
	}
	t.Logf("the slowest of %d clicks: %.1f ms", len(took), slices.Max(took))
	if n := asks(); n != before {
		t.Errorf("clicks asked the server %d times, want all of it to be there", n-before)
	}
}

// changed returns an expression that selects a value of a list.
func changed(selector, value string) string {
	return `{ const list = document.querySelector('` + selector + `'); list.value = '` + value +
		`'; list.dispatchEvent(new Event('change')); }`
}

// TestLivePaths checks that a session and its fork are shown side by side as either continues, that the comparison can
// be chosen, and that the page says what is missing for it.
func TestLivePaths(t *testing.T) {
	p := newLive(t)
	p.read("Call me Ishmael. ")
	p.until(`document.querySelectorAll('#text .token').length === 17`)
	p.pickIn("#live-view", "paths")
	p.until(`document.querySelector('#live-problem').innerText.includes('found no fork')`)
	origin := get[string](p, `document.querySelector('#live-session').value`)
	p.click("#live-fork")
	p.until(`document.querySelector('#live-session').value !== ` + quoted(origin) +
		` && document.querySelector('#live-problem').innerText.includes('are the same')`)
	fork := get[string](p, `document.querySelector('#live-session').value`)
	p.read("Some years ago")
	p.until(`document.querySelector('#live-text').value === ''`)
	p.pickIn("#live-session", origin)
	p.until(`document.querySelector('#live-problem').innerText.includes('are the same')`)
	p.read("I thought")
	p.until(`document.getElementById('paths-layers') && ` + quiet + ` && ` + noProblem)
	if text := p.text("#page .muted"); !strings.Contains(text, "path 2: session "+fork[len(fork)-6:]+", 31 tokens") {
		t.Errorf("found the subtitle %q, want the fork's end and its 31 tokens", text)
	}
	p.shown("paths-layers", "canvas.map")
	p.accessible("paths")
	p.keepPicture("paths")
	get[bool](p, `(async () => (await fetch('/v1/sessions/'+`+quoted(fork)+`+'/append',
		{ method: 'POST', body: JSON.stringify({ text: '!' }) })).ok)()`)
	p.until(`document.querySelector('#page .muted').innerText.includes(', 32 tokens') && ` + quiet)
	p.pickIn("#live-choices label:nth-of-type(3) select", "yes") // a trace
	p.until(`document.getElementById('paths-trace') && ` + quiet + ` && ` + noProblem)
	p.pickIn("#live-choices select", fork)
	p.until(`location.search.includes(` + quoted("other="+fork) + `) && ` + quiet)
	p.pickIn("#live-view", "gradient")
	p.until(`document.getElementById('gradient-added') && !location.search.includes('other=')`)
	p.pickIn("#live-choices select", "last")
	p.until(`document.querySelector('#page h2, #page h3').innerText.includes('after token 24')`)
}

// TestLivePathsOfBranches checks that a conversation is compared with another of its branches, for which the server
// keeps one more session.
func TestLivePathsOfBranches(t *testing.T) {
	p := newTab(t, newLiveServer(t, views.All()))
	p.limit("12")
	explain := func(more string) {
		t.Helper()
		const link = `document.querySelector('#explain')?.getAttribute('href')`
		p.until(link + `?.startsWith('/explain?conversation=')`)
		p.do(chromedp.Navigate(p.site + get[string](p, link) + more))
	}
	p.send("Call me Ishmael")
	explain("")
	p.until(`document.querySelectorAll('#text .token').length > 20`)
	p.pickIn("#live-view", "paths")
	p.until(`document.querySelector('#live-problem').innerText.includes('no other branch')`)
	p.click("#live-back")
	const another = `document.querySelector(".message.assistant [aria-label='Another reply']")`
	p.until(another)
	get[bool](p, `(`+another+`.click(), true)`) // in one step, because the list of messages may be rebuilt
	p.until(`document.querySelector('.branches span')?.innerText === '2/2' && ` + replyEnded)
	p.until(`(async () => { // both replies are kept, whole
		const { heads, load } = await import('/assets/store.js');
		const [{ id }] = await heads(), { nodes } = await load(id);
		return Object.values(nodes).filter((node) => node.role === 'assistant' && node.content).length === 2;
	})()`)
	explain("&view=paths")
	p.until(`document.getElementById('paths-layers') && ` + quiet + ` && ` + noProblem)
	const sessions = `(async () => (await (await fetch('/v1/sessions')).json()).data.length)()`
	if n := get[int](p, sessions); n != 2 {
		t.Errorf("found %d sessions, want one for each branch", n)
	}
}

// TestLiveErrors checks that an error is shown on the page, and disappears when it is fixed, and that nothing new is
// shown of a session that no longer exists.
func TestLiveErrors(t *testing.T) {
	p := newLive(t)
	p.read("C")
	p.until(`document.querySelectorAll('#text .token').length === 1`)
	p.pickIn("#live-view", "memory")
	p.until(`document.querySelector('#live-problem').innerText.includes('found a text of 1 tokens')`)
	if get[int](p, `document.querySelectorAll('section').length`) != 0 {
		t.Error("pictures of another view stayed")
	}
	p.read("all me")
	p.until(`document.getElementById('half-lives') && ` + noProblem)
	get[bool](p, `(async () => (await fetch('/v1/sessions/' + document.querySelector('#live-session').value,
		{ method: 'DELETE' })).ok)()`)
	p.pickIn("#live-view", "surprise")
	p.until(`document.querySelector('#live-problem').innerText.includes('no session')`)
}

// another opens another window of the same browser, with the same storage.
func (p *tab) another() *tab {
	p.t.Helper()
	ctx, cancel := chromedp.NewContext(p.ctx)
	p.t.Cleanup(cancel)
	return openTab(p.t, ctx, &httptest.Server{URL: p.site})
}
