package browser

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/hippo-ssm/hippo/internal/testkit/toyfigure"
)

// newExplanation opens a page of figures that is a single file.
func newExplanation(t *testing.T) *tab {
	t.Helper()
	var b bytes.Buffer
	if err := toyfigure.Page().WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	site := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(b.Bytes())
	}))
	return newTabOnly(t, site)
}

// shown scrolls the section of a figure into the window, and waits until an element that matches inside is drawn in it.
func (p *tab) shown(name, inside string) {
	p.t.Helper()
	p.until(`document.getElementById('` + name + `')`)
	get[bool](p, `(document.getElementById('`+name+`').scrollIntoView({ behavior: 'instant' }), true)`)
	p.until(`document.querySelector('#` + name + ` ` + inside + `')`)
}

// TestPrintHasAllFigures checks that figures that were never in the window are drawn, so that a print has them.
func TestPrintHasAllFigures(t *testing.T) {
	p := newExplanation(t)
	p.until(`document.querySelectorAll('section.figure').length > 3`)
	p.until(`[...document.querySelectorAll('section.figure')].every((s) => s.querySelector('.panels').children.length > 0)`)
	if y := get[float64](p, `scrollY`); y != 0 {
		t.Errorf("the page was scrolled to %g", y)
	}
}

// canvas returns an expression for the picture of a canvas, which is "" if the canvas is empty.
func canvas(selector string) string {
	return `(() => {
		const c = document.querySelector('` + selector + `');
		if (!c || c.width === 0) return '';
		const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		let n = 0;
		for (let i = 3; i < data.length; i += 4) n += data[i] > 0;
		return n > c.width ? c.toDataURL() : '';
	})()`
}

// TestExplanationIsDrawn checks that every kind of panel is drawn, in light, in dark and on a phone, accessibly, and
// that no token is run as markup.
func TestExplanationIsDrawn(t *testing.T) {
	p := newExplanation(t)
	look := func(where string) {
		for name, inside := range map[string]string{
			"kernels": "canvas", "influence-0": "canvas", "state": ".uplot canvas", "tokens": ".token",
			"bars": ".across .bar", "architecture": "svg .node",
		} {
			p.shown(name, inside)
			p.until(`[...document.querySelectorAll('#` + name + ` canvas')].every((canvas) => {
				const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
				let n = 0;
				for (let i = 3; i < data.length; i += 4) n += data[i] > 0;
				return n > 2 * canvas.width;
			})`)
			p.keepPicture(where + "-" + name)
		}
		p.accessible(where)
	}
	for _, theme := range []string{"light", "dark"} {
		_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		if err != nil {
			t.Fatal(err)
		}
		p.until(`matchMedia('(prefers-color-scheme: ` + theme + `)').matches`)
		look(theme)
	}
	p.do(chromedp.EmulateViewport(360, 640))
	p.until(`document.documentElement.clientWidth === 360`)
	look("narrow")
	p.until(`document.documentElement.scrollWidth <= 360`)
	if get[bool](p, `Boolean(window.hacked) || document.querySelectorAll('#page img, #page script').length > 0`) {
		t.Error("a token became markup")
	}
	text := p.text("#tokens")
	if !strings.Contains(text, toyfigure.Hostile[0]) || !strings.Contains(text, `\u202eback`) {
		t.Errorf("found %q, want the tokens as text and marks of direction as escapes", text)
	}
}

// mouse moves the pointer to a part of the element that a selector finds, from 0 to 1 across and down, and clicks there
// if click is true.
func (p *tab) mouse(selector string, across, down float64, click bool) {
	p.t.Helper()
	at := get[[]float64](p, `(async () => {
		const e = document.querySelector(`+quoted(selector)+`), where = () => e.getBoundingClientRect();
		if (where().top < 0 || where().bottom > innerHeight) e.scrollIntoView({ block: 'center', behavior: 'instant' });
		for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame); // scrolling hides notes
		return [where().left, where().top, where().width, where().height];
	})()`)
	x, y := at[0]+across*at[2], at[1]+down*at[3]
	kinds := []input.DispatchMouseEventType{input.DispatchMouseEventTypeMouseMoved}
	if click {
		kinds = append(kinds, input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased)
	}
	for _, kind := range kinds {
		event := input.DispatchMouseEventParams{Type: kind, X: x, Y: y}
		if kind != input.DispatchMouseEventTypeMouseMoved {
			event.Button, event.ClickCount = input.MouseButtonLeft, 1
		}
		if _, err := chromedp.Call(p.ctx, input.DispatchMouseEvent, event); err != nil {
			p.t.Fatal(err)
		}
	}
}

// tip is an expression for the text next to the pointer.
const tip = `(document.querySelector('#tip:not([hidden])')?.innerText ?? '')`

// TestExplanationAnswers checks that pointing at a cell, a point, a token, a bar and a box says what it is; that a
// click on a row of a map shows it as tokens, and a click on a token its links; that the picker and keys change the
// figure; that the slider, keys and the button change the frame; and that a link selects the figure that it names.
func TestExplanationAnswers(t *testing.T) {
	p := newExplanation(t)
	p.shown("influence-0", "canvas.map")
	p.until(canvas("#influence-0 canvas") + ` !== ''`)
	p.mouse("#influence-0 canvas", .2, .3, false)
	p.until(tip + `.includes('share') || ` + tip + `.includes('—')`)
	if text := get[string](p, tip); strings.Count(text, "\n") != 2 {
		t.Errorf("found the note %q, want value, row and column", text)
	}
	p.mouse("#influence-0 canvas", .2, .3, true)
	p.until(`document.querySelectorAll('#influence-0 .row .token').length === 34`)
	if title := p.text("#influence-0 .row h4"); !strings.HasPrefix(title, "What this token drew on: ") {
		t.Errorf("found the title %q above a row", title)
	}

	before := get[string](p, canvas("#influence-0 canvas"))
	p.press("j")
	p.until(`document.querySelector('#influence-0 h2').innerText === 'Influence in layer 1'`)
	p.until(canvas("#influence-0 canvas") + ` !== ` + quoted(before))
	p.until(`location.hash === '#influence-1' && document.querySelector('#influence-0 select').selectedIndex === 1`)
	p.click("#influence-0 [aria-label='Next (j)']")
	p.until(`document.querySelector('#influence-0 h2').innerText === 'Influence in layer 2'`)
	p.press("k")
	p.until(`document.querySelector('#influence-0 h2').innerText === 'Influence in layer 1'`)
	get[bool](p, `(location.hash = '#influence-0', true)`)
	p.until(`document.querySelector('#influence-0 h2').innerText === 'Influence in layer 0'`)

	p.shown("state", ".uplot canvas")
	const frame = `document.querySelector('#state output').innerText`
	p.click("#state input[type=range]") // at its middle
	p.until(frame + `.startsWith('token 1')`)
	get[bool](p, `(document.querySelector('#state').focus(), true)`)
	at := get[string](p, frame)
	p.press("j")
	p.until(frame + ` !== ` + quoted(at))
	p.press("k")
	p.until(frame + ` === ` + quoted(at))
	before = get[string](p, canvas("#state .uplot canvas"))
	get[bool](p, `(() => {
		const slider = document.querySelector('#state input');
		slider.value = 30;
		return slider.dispatchEvent(new Event('input'));
	})()`)
	p.press(" ")
	p.until(`document.querySelector('#state .play').getAttribute('aria-label') === 'Pause'`)
	p.until(frame + `.startsWith('token 33')`)
	p.until(`document.querySelector('#state .play').getAttribute('aria-label') === 'Play'`)
	if get[string](p, canvas("#state .uplot canvas")) == before {
		t.Error("playing changed no picture")
	}
	p.mouse("#state .u-over", .99, .1, false) // the last point of the last frame
	p.until(tip + `.includes('share: 1') && ` + tip + `.includes('left')`)

	p.shown("tokens", ".token")
	p.mouse("#tokens .token:nth-of-type(3)", .5, .5, false)
	p.until(tip + `.includes('token 2') && ` + tip + `.includes('nats') && ` + tip + `.includes('note 2')`)
	color := `getComputedStyle(document.querySelector('#tokens .token')).backgroundColor`
	before = get[string](p, color)
	p.mouse("#tokens .token:nth-of-type(3)", .5, .5, true)
	p.until(`document.querySelector('#tokens .picked').innerText.startsWith('For token 2')`)
	p.until(color + ` !== ` + quoted(before))
	p.mouse("#tokens .token:nth-of-type(3)", .5, .5, true)
	p.until(color + ` === ` + quoted(before))

	p.shown("bars", ".uplot canvas")
	p.mouse("#bars .u-over", .3, .5, false)
	p.until(tip + `.includes('h3') && ` + tip + `.includes('backward: 9')`)
	p.shown("architecture", ".node")
	p.mouse("#architecture .node rect", .5, .5, false)
	p.until(tip + `.includes('a note about in')`)
}

// TestExplanationZooms checks that the wheel over a map with the focus zooms in, that Escape zooms out, and that arrows
// read cells.
func TestExplanationZooms(t *testing.T) {
	p := newExplanation(t)
	p.shown("influence-0", "canvas.map")
	picture := canvas("#influence-0 canvas")
	p.until(picture + ` !== ''`)
	whole := get[string](p, picture)
	get[bool](p, `(document.querySelector('#influence-0 .mapbox').focus(), true)`)
	p.press("+")
	p.until(picture + ` !== ` + quoted(whole))
	part := get[string](p, picture)
	get[bool](p, `(() => {
		const e = document.querySelector('#influence-0 canvas'), box = e.getBoundingClientRect();
		return e.dispatchEvent(new WheelEvent('wheel', { deltaY: -100, bubbles: true, cancelable: true,
			clientX: box.left + box.width / 2, clientY: box.top + box.height / 3 }));
	})()`)
	p.until(picture + ` !== ` + quoted(part))
	get[bool](p, `document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }))`)
	p.until(picture + ` === ` + quoted(whole))
	for range 2 {
		get[bool](p, `document.activeElement.dispatchEvent(new KeyboardEvent('keydown',
			{ key: 'ArrowRight', bubbles: true })) || true`)
	}
	p.until(`document.getElementById('said').innerText.includes('me')`)
}
