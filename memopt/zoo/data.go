package zoo

import (
	"fmt"
	"math"

	"memopt/memopt/graph"
)

// task is data in the making: the same for the same numbers.
type task struct {
	Spec
	samples, seq int
	key          uint64
	drawn        uint64
	out          map[string]*graph.Tensor
}

// Data makes a task up that the model can learn: samples of each input, by
// name, with the samples in the first dim. seq is for models of sequences.
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

// below draws a whole number in [0, n).
func (t *task) below(n int) int {
	t.drawn++
	return int(mix(t.key+t.drawn*golden) % uint64(n))
}

// unit draws a number in [0, 1).
func (t *task) unit() float64 { return float64(t.below(1<<53)) / (1 << 53) }

// normal draws a number of mean 0 and deviation 1, as near to normal as the
// sum of four uniform ones is.
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

// alphabet is how many of the tokens the made-up texts use.
const alphabet = 32

// rules are what follows a token t: a·t + b, modulo the alphabet. A text keeps
// to one of them from a start of its own, so it takes two tokens to know the
// third.
var rules = [...]struct{ a, b int }{{1, 1}, {1, 7}, {5, 3}, {3, 11}}

// text draws n tokens.
func (t *task) text(n, tokens int) []int64 {
	rule, at := rules[t.below(len(rules))], t.below(tokens)
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(at)
		at = (rule.a*at + rule.b) % tokens
	}
	return out
}

// nextToken: the label of a token is the one after it.
func nextToken(t *task) {
	ids, labels := t.ints("input_ids", t.samples, t.seq), t.ints("labels", t.samples, t.seq)
	for i := range t.samples {
		text := t.text(t.seq+1, min(t.Vocab, alphabet))
		copy(ids[i*t.seq:], text[:t.seq])
		copy(labels[i*t.seq:], text[1:])
	}
}

// phrase is the tokens of what a text repeats in a masked task.
const phrase = 4

// maskedToken: a text is one phrase over and over. Every sixth token or so is
// the mask, which is the last of the vocabulary, and its label is what was
// there: its place tells which of the phrase, the rest tells the phrase.
func maskedToken(t *task) {
	ids, labels := t.ints("input_ids", t.samples, t.seq), t.ints("labels", t.samples, t.seq)
	tokens := max(1, min(t.Vocab-1, alphabet))
	for i := range t.samples {
		topic, masked := t.below((tokens+phrase-1)/phrase), false
		for j := range t.seq {
			at, token := i*t.seq+j, int64((topic*phrase+j%phrase)%tokens)
			ids[at], labels[at] = token, ignored
			// The last one makes sure that there is something to tell.
			if t.below(6) == 0 || !masked && j == t.seq-1 {
				ids[at], labels[at], masked = int64(t.Vocab-1), token, true
			}
		}
	}
}

// gratings: an image is waves under noise, and its class is their direction.
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

// prototypes: a row is its class's row under noise. However long rows are, two
// classes are as far apart.
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
