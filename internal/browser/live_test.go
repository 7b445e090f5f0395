package browser

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/web"
)

// TestLiveSession: a text is read into a new session and its states are shown, the model writes and the pictures go
// along token by token, what another client reads into the session appears, and another view can be chosen.
func TestLiveSession(t *testing.T) {
	pages := web.Chat()
	maps.Copy(pages, figure.Live())
	state := serve.View{Name: "state", Title: "States",
		Show: func(_ context.Context, x *session.Session, tokens []string) (*figure.Page, error) {
			m := x.Model()
			return explain.States(&m.Backbone, x.Snapshot().State, tokens, x.LogProbs()), nil
		}}
	other := state
	other.Name, other.Title = "other", "Again"
	s, err := serve.New(serve.Options{Pages: pages, Views: []serve.View{state, other}}, newModel(t, "tiny", chatTemplate))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	p := newTabOnly(t, serveHandler(t, s))
	p.do(chromedp.Navigate(p.site + "/explain"))
	p.until(`document.querySelector('#live-model option')`)
	p.fill("#live-text", "Call me Ishmael. ")
	p.click("#live-read")
	const tokens = `document.querySelectorAll('section .token').length`
	p.until(tokens + ` === 17`)
	p.until(canvas("#state-0 canvas") + ` !== ''`)
	before := get[string](p, canvas("#state-0 canvas"))
	p.accessible("live")
	p.keepPicture("live")
	p.click("#live-write")
	p.until(tokens + ` > 20`)
	p.until(canvas("#state-0 canvas") + ` !== ` + quoted(before))
	p.click("#live-write") // stops
	p.until(`document.querySelector('#live-write').innerText === 'Write'`)
	if get[int](p, `document.querySelectorAll('section').length`) != 3 {
		t.Error("what was shown was not brought up to date, but shown again")
	}
	written := get[int](p, tokens)
	get[bool](p, `(async () => (await fetch('/v1/sessions/' + document.querySelector('#live-session').value + '/append',
		{ method: 'POST', body: JSON.stringify({ text: 'more' }) })).ok)()`)
	p.until(fmt.Sprintf("%s >= %d", tokens, written+4))
	p.do(chromedp.SetValue(chromedp.CSS("#live-view"), "other"))
	get[bool](p, `document.querySelector('#live-view').dispatchEvent(new Event('change'))`)
	p.until(`document.querySelector('#live-view').selectedIndex === 1 && ` + tokens + ` > 0`)
}
