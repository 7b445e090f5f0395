package task

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// TestMuLaw checks that levels begin where the formula says, that silence is a level of its own, and that the error of
// a sample is at most half of its level, which is a fifth of a thousandth near silence and 2 % near the bounds.
func TestMuLaw(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want byte
	}{{-1, 0}, {0, 128}, {1, 255}, {-1e-9, 127}, {math.Expm1(.5*math.Log(256)) / 255 * 1.0001, 192}, {2, 255}} {
		if got := muLaw(c.x); got != c.want {
			t.Errorf("%v: found level %d, want %d", c.x, got, c.want)
		}
	}
	for x := -1.0; x <= 1; x += 1e-3 {
		y := MuLawSample(int32(muLaw(x)))
		if most := 1e-4 + .0225*math.Abs(x); math.Abs(y-x) > most {
			t.Fatalf("%v became %v, want within %v", x, y, most)
		}
	}
}

// recorded returns takes of a digit with the given samples.
func recorded(t *testing.T, samples func(take, i int) float64) string {
	dir := t.TempDir()
	for take := range 9 {
		var data []byte
		for i := range 2000 {
			data = binary.LittleEndian.AppendUint16(data, uint16(int16(math.Round(32767*samples(take, i)))))
		}
		putFile(t, dir, "recordings/3_ann_"+string(rune('0'+take))+".wav",
			wavFile(wavFormat(1, 1, 8000, 16), chunk("data", data)))
	}
	return dir
}

// TestSpeechBaselines checks that the levels of a sine are nearly always those of a linear forecast, while their
// frequencies say little, and that the forecast of independent samples is no better than the frequencies. It also
// checks that inputs are the previous targets.
func TestSpeechBaselines(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	open := func(samples func(take, i int) float64) *Set {
		set, err := openTask(t, Speech, recorded(t, samples), func(o *speechOptions) { o.Length = 1500 })
		if err != nil {
			t.Fatal(err)
		}
		if set.Train.Len() != 3 || set.Valid.Len() != 1 || set.Test.Len() != 5 || set.MaxLength != 1500 {
			t.Fatalf("found %d, %d, %d recordings of up to %d", set.Train.Len(), set.Valid.Len(), set.Test.Len(),
				set.MaxLength)
		}
		return set
	}
	sine := open(func(take, i int) float64 { return .5 * math.Sin(.02*float64(i+take)) })
	if counted, linear := sine.Simple[0].Loss, sine.Simple[1].Loss; counted < 3 || linear > counted/2 {
		t.Errorf("a sine: found %v nats by frequencies and %v by the forecast, want half at most", counted, linear)
	}
	noise := open(func(int, int) float64 { return 2*rng.Float64() - 1 })
	if counted, linear := noise.Simple[0].Loss, noise.Simple[1].Loss; counted > math.Log(256) || linear < counted {
		t.Errorf("noise: found %v nats by frequencies and %v by the forecast, want more", counted, linear)
	}
	var ex Example
	sine.Test.Example(0, &ex)
	if ex.Tokens[0] != SpeechSilence {
		t.Errorf("found the first input %d, want silence", ex.Tokens[0])
	}
	for i, x := range ex.Targets[1:] {
		if ex.Tokens[i+1] != ex.Targets[i] || x != int32(muLaw(math.Round(32767*.5*math.Sin(.02*float64(i+1)))/32768)) {
			t.Fatalf("sample %d: found the input %d and the target %d", i+1, ex.Tokens[i+1], x)
		}
	}
}

// TestLaplaceLoss checks that the probabilities of all levels sum to 1.
func TestLaplaceLoss(t *testing.T) {
	sum := 0.0
	for level := range speechLevels {
		sum += math.Exp(-laplaceLoss(levels{{byte(level)}}, make([]float64, speechOrder), .9))
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("found the sum %v, want 1", sum)
	}
}
