package zoo

import (
	"fmt"
	"math"

	"memopt/internal/graph"
)

// task generates data deterministically from its parameters.
type task struct {
	Spec
	samples, seq int
	key          uint64
	drawn        uint64
	out          map[string]*graph.Tensor
}

// Data generates a task that the model can learn: samples for each input, by name, in the first dim. seq is for
// models of sequences.
func Data(spec Spec, samples, seq int, seed uint64) (map[string]*graph.Tensor, error) {
	spec, err := spec.Complete()
	if err != nil {
		return nil, err
	}
	f, err := find(spec.Family)
	if err != nil {
		return nil, err
	}
	if samples < 1 {
		return nil, fmt.Errorf("%d samples; there should be at least 1", samples)
	}
	if f.Seq > 0 && (seq < 1 || spec.Positions > 0 && seq > spec.Positions) {
		return nil, fmt.Errorf("sequences of %d; the model takes 1 to %d", seq, spec.Positions)
	}
	t := &task{Spec: spec, samples: samples, seq: seq, key: keyOf(seed, "data."+f.Name), out: map[string]*graph.Tensor{}}
	f.data(t)
	return t.out, nil
}

// below draws an integer in [0, n).
func (t *task) below(n int) int {
	t.drawn++
	return int(mix(t.key+t.drawn*golden) % uint64(n))
}

// unit draws a number in [0, 1).
func (t *task) unit() float64 { return float64(t.below(1<<53)) / (1 << 53) }

// normal draws a number of mean 0 and standard deviation 1: a sum of four uniform ones, which is approximately
// normal.
func (t *task) normal() float64 {
	return (t.unit() + t.unit() + t.unit() + t.unit() - 2) * math.Sqrt(3)
}

func (t *task) ints(name string, shape ...int) []int64 {
	t.out[name] = graph.NewTensor(graph.Int64, shape...)
	return t.out[name].I64()
}

func (t *task) floats(name string, shape ...int) []float32 {
	t.out[name] = graph.NewTensor(graph.Float32, shape...)
	return t.out[name].F32()
}

// alphabet is the number of tokens that generated texts use.
const alphabet = 32

// rules give the token after t: a·t + b, modulo the alphabet. A text follows one rule from a random start, so two
// tokens are needed to predict the third.
var rules = [...]struct{ a, b int }{{1, 1}, {1, 7}, {5, 3}, {3, 11}}

// text draws a text of n tokens.
func (t *task) text(n, tokens int) []int64 {
	rule, at := rules[t.below(len(rules))], t.below(tokens)
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(at)
		at = (rule.a*at + rule.b) % tokens
	}
	return out
}

// nextToken generates texts; the label of each token is the next token.
func nextToken(t *task) {
	ids, labels := t.ints("input_ids", t.samples, t.seq), t.ints("labels", t.samples, t.seq)
	for i := range t.samples {
		text := t.text(t.seq+1, min(t.Vocab, alphabet))
		copy(ids[i*t.seq:], text[:t.seq])
		copy(labels[i*t.seq:], text[1:])
	}
}

// phrase is the length of the phrase that a text of maskedToken repeats.
const phrase = 4

// maskedToken generates texts that repeat one phrase. About every sixth token is masked, by the last token of the
// vocabulary, and its label is the original token: its position gives the place in the phrase, the other tokens
// give the phrase.
func maskedToken(t *task) {
	ids, labels := t.ints("input_ids", t.samples, t.seq), t.ints("labels", t.samples, t.seq)
	tokens := max(1, min(t.Vocab-1, alphabet))
	for i := range t.samples {
		topic, masked := t.below((tokens+phrase-1)/phrase), false
		for j := range t.seq {
			at, token := i*t.seq+j, int64((topic*phrase+j%phrase)%tokens)
			ids[at], labels[at] = token, ignored
			// Mask the last token if there was no other.
			if t.below(6) == 0 || !masked && j == t.seq-1 {
				ids[at], labels[at], masked = int64(t.Vocab-1), token, true
			}
		}
	}
}

// gratings generates images of waves with noise; the class is the direction of the waves.
func gratings(t *task) {
	x, labels := t.floats("x", t.samples, t.Channels, t.Image, t.Image), t.ints("labels", t.samples)
	for i := range t.samples {
		class, phase := t.below(t.Classes), 2*math.Pi*t.unit()
		sin, cos := math.Sincos(math.Pi * float64(class) / float64(t.Classes))
		labels[i] = int64(class)
		for c := range t.Channels {
			for row := range t.Image {
				for col := range t.Image {
					wave := math.Sin(float64(col)*cos + float64(row)*sin + phase)
					x[((i*t.Channels+c)*t.Image+row)*t.Image+col] = float32(wave + t.normal()/2)
				}
			}
		}
	}
}

// prototypes generates rows that are their class's prototype plus noise. The distance between classes does not
// depend on the length of rows.
func prototypes(t *task) {
	x, labels := t.floats("x", t.samples, t.Inputs), t.ints("labels", t.samples)
	size := 5 / math.Sqrt(float64(t.Inputs))
	for i := range t.samples {
		class := t.below(t.Classes)
		labels[i] = int64(class)
		of := keyOf(t.key, fmt.Sprint("class ", class))
		for j := range t.Inputs {
			sign := 1 - 2*float64(mix(of+uint64(j)*golden)>>63)
			x[i*t.Inputs+j] = float32(sign*size + t.normal())
		}
	}
}
