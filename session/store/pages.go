package store

import "github.com/hippo-ssm/hippo/session"

// pages are the keys and values that marks hold. The marks of one text have most of them in common: each is counted
// once.
type pages map[any]page

// page is one of them.
type page struct {
	marks int // that have it
	bytes int
}

// snapshotSize is the memory of a mark: what is its own, and its pages.
func snapshotSize(s *session.Snapshot) (own, paged int64) {
	own = int64(s.Size())
	s.State.Pages(func(_ any, bytes, counted int) { own, paged = own-int64(counted), paged+int64(bytes) })
	return markSize + max(0, own), paged
}

// markSize is the memory of a mark besides its snapshot.
const markSize = 512

// hold counts the pages of a mark that comes, and returns how many bytes are new.
func (p pages) hold(s *session.Snapshot) (bytes int64) {
	s.State.Pages(func(key any, n, _ int) {
		was, there := p[key]
		if !there {
			was.bytes = n
			bytes += int64(n)
		}
		p[key] = page{was.marks + 1, was.bytes}
	})
	return bytes
}

// release counts those of one that goes, and returns how many bytes are free.
func (p pages) release(s *session.Snapshot) (bytes int64) {
	s.State.Pages(func(key any, _, _ int) {
		was := p[key]
		if was.marks--; was.marks > 0 {
			p[key] = was
			return
		}
		delete(p, key)
		bytes += int64(was.bytes)
	})
	return bytes
}
