package hub

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/hubtest"
)

// FuzzListing reads any response of a hub. All chosen paths stay inside the cache.
func FuzzListing(f *testing.F) {
	f.Add(hubtest.Listing(testRepo, hubtest.Files{"config.json": nil, "model.safetensors": nil}), "model.safetensors")
	f.Add(hubtest.Listing(testRepo, hubtest.Files{"../x.gguf": nil, "x-Q8_0.gguf": nil}), "../x")
	f.Add([]byte(`{"sha": "`+strings.Repeat("0", 40)+`", "siblings": [{`+
		`"rfilename": "model.safetensors.index.json"}]}`), "")
	f.Fuzz(func(t *testing.T, text []byte, shard string) {
		n := Name{Repo: testRepo}
		l, err := parseListing(n, text)
		if err != nil {
			return
		}
		index := `{"weight_map": {"a": "` + shard + `"}}`
		found, err := newChooser(n, l.files, func(File) ([]byte, error) { return []byte(index), nil }).choose()
		if err != nil {
			return
		}
		r := Cache{Dir: "cache"}.repo(n.Repo)
		for _, path := range found.all() {
			rel, err := filepath.Rel(r.snapshot(l.commit), r.pointer(l.commit, path))
			if err != nil || !filepath.IsLocal(rel) {
				t.Errorf("%q leads to %q (%v)", path, rel, err)
			}
		}
	})
}

// FuzzParseName reads names. One that is accepted is written so that it is read again, and its folder is in the cache.
func FuzzParseName(f *testing.F) {
	for _, text := range []string{"org/name", "a:b", "org/name:v1:x.gguf", "..", "a--b", "o/n:q8_0", "o/n:../x.pt"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseName(text)
		if err != nil {
			return
		}
		again, err := ParseName(n.String())
		if err != nil || again.String() != n.String() {
			t.Errorf("%q is %+v, whose name %q is %+v (%v)", text, n, n.String(), again, err)
		}
		r := Cache{Dir: "cache"}.repo(n.Repo)
		if filepath.Dir(r.dir()) != "cache" || !strings.HasPrefix(filepath.Base(r.dir()), repoPrefix) {
			t.Errorf("%q has the folder %q", text, r.dir())
		}
		if rel, err := filepath.Rel(r.dir(), r.ref(n.revision())); err != nil || !filepath.IsLocal(rel) {
			t.Errorf("%q has the reference %q (%v)", text, rel, err)
		}
	})
}
