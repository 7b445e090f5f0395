package browser

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/hippo-ssm/hippo/internal/toyfigure"
)

// newExplanation opens a page of figures as one file.
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

// shown brings the section of a figure into the window, and waits until something of a kind is drawn in it.
func (p *tab) shown(name, inside string) {
	p.t.Helper()
	p.until(`document.getElementById('` + name + `')`)
	get[bool](p, `(document.getElementById('`+name+`').scrollIntoView({ behavior: 'instant' }), true)`)
	p.until(`document.querySelector('#` + name + ` ` + inside + `')`)
}

// canvas is an expression: the picture of a canvas, or nothing if it is empty.
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

// TestExplanationIsDrawn: every kind of panel is drawn, in light, in dark and on a phone, accessible, with nothing of a
// token run as markup.
func TestExplanationIsDrawn(t *testing.T) {
	p := newExplanation(t)
	look := func(where string) {
		for name, inside := range map[string]string{"kernels": "canvas", "influence-0": "canvas", "state": ".uplot canvas",
			"tokens": ".token", "bars": ".across .bar", "architecture": "svg .node"} {
			p.shown(name, inside)
			if strings.Contains(inside, "canvas") {
				p.until(canvas("#"+name+" "+inside) + ` !== ''`)
			}
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
	if text := p.text("#tokens"); !strings.Contains(text, toyfigure.Hostile[0]) || !strings.Contains(text, `\u202eback`) {
		t.Errorf("found %q, want the tokens as text and marks of direction as escapes", text)
	}
}
