package engine

import "testing"

// TestFeatureMapNames checks that every name is parsed and that other names are refused.
func TestFeatureMapNames(t *testing.T) {
	for f := range featureMapNames {
		if got, err := ParseFeatureMap(FeatureMap(f).String()); err != nil || got != FeatureMap(f) {
			t.Errorf("%v is read as %v, %v", FeatureMap(f), got, err)
		}
	}
	if _, err := ParseFeatureMap("cosine"); err == nil {
		t.Error("an unknown feature map is accepted")
	}
}
