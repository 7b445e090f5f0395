package text

import (
	"strings"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// withEnds returns the files of a chat format, in which the ends of a reply are named that the template writes or end
// names.
func withEnds(texts map[string][]byte, end string, tok tokenizer.Tokenizer) (map[string][]byte, error) {
	c, err := newChats(texts, end, tok)
	if err != nil {
		return nil, err
	}
	for _, unnamed := range c.unnamed {
		if texts, err = chat.WithEnd(texts, unnamed, tok); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// last returns the parts of a document. Its last reply ends with c.end if the template writes no end.
func (c *chats) last(parts []data.Part) []data.Part {
	reply := &parts[len(parts)-2]
	if _, ended := c.endOf(reply.Text); !ended {
		reply.Text += c.end
	}
	return parts
}

// endOf returns where a reply ends, and reports whether a text that ends replies is there: after that text, if only
// white space follows it, or else at the end of the reply.
func (c *chats) endOf(reply string) (at int, ended bool) {
	for _, end := range c.ends {
		if at := strings.LastIndex(reply, end); at >= 0 && strings.TrimSpace(reply[at+len(end):]) == "" {
			return at + len(end), true
		}
	}
	return len(reply), false
}
