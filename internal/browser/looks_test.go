package browser

import (
	_ "embed"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/hippo-ssm/hippo/serve"
)

// check is a program that returns the accessibility problems of a page.
//
//go:embed testdata/check.js
var check string

// filled returns the page with a conversation and everything open.
func filled(t *testing.T) *tab {
	t.Helper()
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate), newModel(t, "other", "")))
	p.limit("30")
	p.send("Without colors")
	p.click("#tokens")
	p.send("With colors")
	p.fill("#composer-text", "A draft")
	return p
}

// accessible fails a test for each accessibility problem.
func (p *tab) accessible(where string) {
	p.t.Helper()
	for _, wrong := range get[[]string](p, check) {
		p.t.Errorf("%s: %s", where, wrong)
	}
}

// TestAccessible checks that every control has a name, that texts have contrast and that IDs are unique, in light and
// dark, in each state of the page.
func TestAccessible(t *testing.T) {
	p := filled(t)
	for _, theme := range []string{"light", "dark"} {
		get[string](p, `document.documentElement.dataset.theme = '`+theme+`'`)
		p.accessible(theme)
		for _, tab := range []string{"settings", "branches", "models"} {
			p.click("#open-settings")
			p.click("#tab-" + tab)
			if tab == "models" {
				p.until(`document.querySelectorAll('.models li').length === 2`)
			}
			p.accessible(theme + " " + tab)
			p.click(".tabs .square")
		}
	}
	p.sideBySide(2)
	p.accessible("side by side")
	p.click("#new-text")
	p.fill("#text", "Call me")
	p.accessible("text")
}

// TestNarrow checks that on a phone nothing is wider than the window, and that the list of conversations can be opened.
func TestNarrow(t *testing.T) {
	p := filled(t)
	p.do(chromedp.EmulateViewport(360, 640))
	const wide = `['html', '#main', '#composer'].some((name) => document.querySelector(name).scrollWidth > innerWidth)`
	if get[bool](p, wide) {
		t.Errorf("the page is wider than the window")
	}
	p.accessible("narrow")
	const listed = `document.getElementById('sidebar').getBoundingClientRect().left >= 0`
	if get[bool](p, listed) {
		t.Error("the list is open")
	}
	p.click("#bar [aria-label='Conversations']")
	p.until(listed)
	p.accessible("narrow list")
	p.click(".conversations .title")
	p.until("!(" + listed + ")")
	p.click("#open-settings")
	p.until(`document.getElementById('panel').getBoundingClientRect().right <= innerWidth`)
	if get[bool](p, wide) {
		t.Errorf("the page with its settings is wider than the window")
	}
}

// TestDark checks that the page is dark if the system is, and that the switch overrides the system and is kept.
func TestDark(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	const ground = `getComputedStyle(document.body).backgroundColor`
	light := get[string](p, ground)
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.until(ground + ` === 'rgb(23, 22, 26)'`)
	p.click("#theme") // to light
	p.until(ground + ` === '` + light + `'`)
	p.do(chromedp.Reload())
	p.until(`document.getElementById('theme')`)
	p.until(ground + ` === '` + light + `'`)
}
