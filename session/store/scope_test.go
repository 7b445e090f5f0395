package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/session"
)

// TestScopesAreApart checks that a scope finds its own texts but none of another scope, in memory, in the bucket and
// after a restart, encrypted and not.
func TestScopesAreApart(t *testing.T) {
	for _, secret := range [][]byte{nil, []byte("0123456789abcdef")} {
		m, bucket := language(t, hybrid), newMemory()
		o := Options{Memory: room, Bucket: bucket, Key: secret}
		s := open(t, m, o)
		mine := text(1, 60)
		guess := append(append([]int32{}, mine[:50]...), text(2, 10)...)
		for _, name := range []string{"", "alice"} {
			if f := want(t, s.Scope(name), m, session.Direct{}, whole(mine)); f.Miss.Reason != Nothing || f.Cached > 0 {
				t.Errorf("%q finds %v of what it never read", name, f)
			}
		}
		for range 3 { // each restarts on the bucket of the one before
			for _, name := range []string{"mallory", "alic", "\x00alice"} {
				for _, ids := range [][]int32{mine, guess} {
					f := s.Scope(name).Find(t.Context(), whole(ids))
					if f.Miss != (Miss{Nothing, 0}) || f.Cached+f.Shared+len(f.LogProbs) > 0 {
						t.Errorf("%q finds %+v of the text of another", name, f)
					}
				}
			}
			if f := s.Scope("alice").Scope("mallory").Find(t.Context(), whole(guess)); f.Miss.Reason != Nothing {
				t.Errorf("a scope in a scope finds %v", f.Miss)
			}
			for _, name := range []string{"", "alice"} {
				if f := s.Scope(name).Find(t.Context(), whole(mine)); f.Cached != len(mine) {
					t.Errorf("%q finds %v of its own text", name, f.Miss)
				}
				if f := s.Scope(name).Find(t.Context(), whole(guess)); f.Miss.Reason != Edited {
					t.Errorf("%q finds %v of its edited text", name, f.Miss)
				}
			}
			if err := errors.Join(s.Flush(t.Context()), s.WriteTexts(t.Context())); err != nil {
				t.Fatal(err)
			}
			s = open(t, m, o)
		}
		for _, name := range bucket.names() {
			if strings.Contains(name+string(bucket.objects[name]), "alice") {
				t.Errorf("the object %s tells the name of a scope", name)
			}
		}
	}
}

// TestScopesLeaveMemory checks that scopes without texts take no memory.
func TestScopesLeaveMemory(t *testing.T) {
	m := language(t, hybrid)
	s := open(t, m, Options{Memory: 1 << 18})
	for i := range 300 {
		if err := s.Scope(fmt.Sprint(i)).Put(t.Context(), whole(text(uint64(i), 400)), nil); err != nil {
			t.Fatal(err)
		}
		check(t, s)
	}
	if n := len(s.tree.roots); n > 150 {
		t.Errorf("%d scopes are in memory", n)
	}
}

// TestStoresWithoutScopesOpen checks that the objects of an earlier version, which has no scopes, belong to the first
// scope and that their names have not changed.
func TestStoresWithoutScopesOpen(t *testing.T) {
	m, bucket := language(t, hybrid), newMemory()
	s := open(t, m, Options{Memory: room, Bucket: bucket})
	want(t, s, m, session.Direct{}, whole(text(1, chunk)))
	if err := errors.Join(s.Flush(t.Context()), s.WriteTexts(t.Context())); err != nil {
		t.Fatal(err)
	}
	id, err := json.Marshal(session.Identity{Chunk: chunk})
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, nil)
	mac.Write(append([]byte(magic), id...))
	origin := mac.Sum(nil)
	h := origin
	for _, sym := range read(whole(text(1, chunk)), chunk).syms {
		h = append(h, byte(sym), byte(sym>>8), byte(sym>>16), byte(sym>>24))
	}
	k := fmt.Sprintf("%x", sha256.Sum256(h))
	for _, begin := range []string{fmt.Sprintf("%x/%s/%s-%d-", origin[:8], k[:2], k, chunk),
		fmt.Sprintf("%x/texts/", origin[:8])} {
		found := false
		for _, name := range bucket.names() {
			found = found || strings.HasPrefix(name, begin)
		}
		if !found {
			t.Errorf("no object %s… in %q", begin, bucket.names())
		}
	}
}
