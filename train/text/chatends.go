package text

import (
	"strings"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// withEnds returns the files of a chat format with all texts that end a reply added to them: those that the template
// writes, and end.
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

// last returns the parts of a document. It appends c.end to the last reply if the template writes no end.
func (c *chats) last(parts []data.Part) []data.Part {
	reply := &parts[len(parts)-2]
	if _, ended := c.endOf(reply.Text); !ended {
		reply.Text += c.end
	}
	return parts
}

// endOf returns the index at which a reply ends, and reports whether it ends with one of c.ends, followed at most by
// white space. If so, at is the index after that text, else the length of the reply.
func (c *chats) endOf(reply string) (at int, ended bool) {
	for _, end := range c.ends {
		if at := strings.LastIndex(reply, end); at >= 0 && strings.TrimSpace(reply[at+len(end):]) == "" {
			return at + len(end), true
		}
	}
	return len(reply), false
}
