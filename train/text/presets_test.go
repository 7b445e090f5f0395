package text

import (
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/model"
)

// TestPresetSettings: what is trained like the default run are the tiny presets; every other has settings of its own.
func TestPresetSettings(t *testing.T) {
	for _, name := range Presets() {
		_, own := presets[name]
		if isTiny := name == "tiny" || strings.HasSuffix(name, "-tiny"); own == isTiny {
			t.Errorf("%s: settings of its own: %v", name, own)
		}
		c, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, m := range model.Mixers() {
		want := tiny().Optim.LR
		if m.Tiny.LR > 0 {
			want = m.Tiny.LR
		}
		if c, err := Preset(m.Name + "-tiny"); err != nil || c.Optim.LR != want {
			t.Errorf("the rate of %s-tiny: %v, %v, want %v", m.Name, c.Optim.LR, err, want)
		}
	}
}
