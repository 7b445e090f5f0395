package browser

import (
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/serve"
)

// TestReplyIsStreamed: a message is answered, and the page says what the reply took.
func TestReplyIsStreamed(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.limit("40")
	p.send("Hello" + strings.Repeat(" again", 200))
	p.until(`document.querySelector('.facts .made')?.innerText === '40 new'`)
	if text := get[string](p, `document.querySelector('.message.user .plain').innerText`); !strings.HasPrefix(text, "Hello again") {
		t.Errorf("found the message %q", text)
	}
	p.send("And more")
	p.until(`document.querySelectorAll('.facts .cached').length === 2`)
	if cached := get[int](p, `parseInt([...document.querySelectorAll('.facts .cached')][1].innerText)`); cached < 1000 {
		t.Errorf("found %d cached tokens of the second message, want those of the first at least", cached)
	}
}
