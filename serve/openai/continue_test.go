package openai_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
)

// TestChatGoesOnFromAReply checks that a partial reply is continued to the same text, and that a message of another
// role cannot be continued.
func TestChatGoesOnFromAReply(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	bias := map[string]int{} // exclude partial characters, so that the text gives the same tokens again
	for id := 128; id < 256; id++ {
		bias[strconv.Itoa(id)] = -100
	}
	form := `{"messages": [{"role": "user", "content": "Call me"}%s], "max_tokens": %d, "temperature": 0%s, ` +
		`"logit_bias": ` + servetest.Quoted(t, bias) + `}`
	all := servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions",
		fmt.Sprintf(form, "", 12, "")).Choices[0].Message.Content
	first := servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions",
		fmt.Sprintf(form, "", 5, "")).Choices[0].Message.Content
	partial := `, {"role": "assistant", "content": ` + servetest.Quoted(t, first) + `}`
	const on = `, "continue_final_message": true`
	rest := servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions", fmt.Sprintf(form, partial, 7, on))
	if got := *first + *rest.Choices[0].Message.Content; got != *all {
		t.Errorf("found %q, want %q", got, *all)
	}
	status, _, data := s.Do(http.MethodPost, "/v1/chat/completions", fmt.Sprintf(form, "", 7, on))
	if status != http.StatusBadRequest {
		t.Errorf("status %d: %s", status, data)
	}
	const alone = `{"messages": [{"role": "assistant", "content": "It"}], "max_tokens": 3` + on + `}`
	if status, _, data := s.Do(http.MethodPost, "/v1/chat/completions", alone); status != http.StatusOK {
		t.Errorf("a reply to nothing: status %d: %s", status, data)
	}
}
