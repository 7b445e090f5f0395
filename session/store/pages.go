package store

import "github.com/hippo-ssm/hippo/session"

// pages counts the pages of keys and values of all marks. The marks of one text share most pages. The size of each page
// is counted once.
type pages map[any]page

// page is the count of one page.
type page struct {
	marks int // number of marks that share it
	bytes int
}

// snapshotSize returns the size of a snapshot: that of the memory of its own and that of its pages.
func snapshotSize(s *session.Snapshot) (own, paged int64) {
	own = int64(s.Size())
	s.State.Pages(func(_ any, bytes, counted int) { own, paged = own-int64(counted), paged+int64(bytes) })
	return markSize + max(0, own), paged
}

// markSize is the memory in bytes of a mark without its snapshot.
const markSize = 512

// hold counts the pages of a new mark and returns the number of new bytes.
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

// release removes the pages of an evicted mark and returns the number of bytes freed.
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
