package main

import "math"

// kernel is one loop's body: values in order of computation.
type kernel struct {
	name, doc string
	ins, outs int
	values    []*value
	consts    []*value // without duplicates
	scalars   []*value
	sums      int // float64 accumulators, two registers each
	top       bool
	ahead     bool
}

// value is a vector value, or an operation with an effect.
type value struct {
	op   string
	args []*value
	i    int    // index of an input, output, scalar or sum
	bits uint32 // a constant's bits
}

func (k *kernel) put(op string, i int, args ...*value) *value {
	v := &value{op: op, i: i, args: args}
	k.values = append(k.values, v)
	return v
}

// in is the element of input i, read before this turn's outputs are stored.
func (k *kernel) in(i int) *value {
	k.ins = max(k.ins, i+1)
	return k.put("in", i)
}

// out stores the element of output i.
func (k *kernel) out(i int, v *value) {
	k.outs = max(k.outs, i+1)
	k.put("out", i, v)
}

// num returns a constant.
func (k *kernel) num(x float64) *value { return k.bits(math.Float32bits(float32(x))) }

func (k *kernel) bits(b uint32) *value {
	for _, c := range k.consts {
		if c.bits == b {
			return c
		}
	}
	c := &value{op: "const", bits: b}
	k.consts = append(k.consts, c)
	return c
}

// scalar is parameter i of the loop.
func (k *kernel) scalar(i int) *value {
	for len(k.scalars) <= i {
		k.scalars = append(k.scalars, &value{op: "scalar", i: len(k.scalars)})
	}
	return k.scalars[i]
}

func (k *kernel) add(a, b *value) *value     { return k.put("ADDPS", 0, a, b) }
func (k *kernel) sub(a, b *value) *value     { return k.put("SUBPS", 0, a, b) }
func (k *kernel) mul(a, b *value) *value     { return k.put("MULPS", 0, a, b) }
func (k *kernel) div(a, b *value) *value     { return k.put("DIVPS", 0, a, b) }
func (k *kernel) sqrt(a *value) *value       { return k.put("sqrt", 0, a) }
func (k *kernel) round(a *value) *value      { return k.put("round", 0, a) }
func (k *kernel) and(a, b *value) *value     { return k.put("and", 0, a, b) }
func (k *kernel) or(a, b *value) *value      { return k.put("or", 0, a, b) }
func (k *kernel) fma(a, b, c *value) *value  { return k.put("FMADD", 0, a, b, c) }  // a·b + c
func (k *kernel) fnma(a, b, c *value) *value { return k.put("FNMADD", 0, a, b, c) } // c − a·b

// min and max are b if either is NaN.
func (k *kernel) min(a, b *value) *value { return k.put("MINPS", 0, a, b) }
func (k *kernel) max(a, b *value) *value { return k.put("MAXPS", 0, a, b) }

// less is x if a < b, else y.
func (k *kernel) less(a, b, x, y *value) *value { return k.put("less", 0, a, b, x, y) }

// scale is p·2ⁿ for an integral n.
func (k *kernel) scale(p, n *value) *value { return k.put("scale", 0, p, n) }

// sum adds v, and sumOf a·b, to sum i in float64; greatest keeps the maximum.
func (k *kernel) sum(i int, v *value)      { k.sums = max(k.sums, i+1); k.put("sum", i, v) }
func (k *kernel) sumOf(i int, a, b *value) { k.sums = max(k.sums, i+1); k.put("sumOf", i, a, b) }
func (k *kernel) greatest(v *value)        { k.top = true; k.put("greatest", 0, v) }

// near is sum, except that a few neighbours are first added in float32.
func (k *kernel) near(i int, v *value) { k.sums = max(k.sums, i+1); k.put("near", i, v) }

// next prefetches the row after input 0's while this row is computed. It takes an output's
// register, so the loop may have only one output.
func (k *kernel) next() { k.ahead = true; k.put("ahead", 0) }

// fetch prefetches input i, which the loop does not read otherwise.
func (k *kernel) fetch(i int) { k.ins = max(k.ins, i+1); k.put("fetch", i) }

// wide adds v to output i, which is float64 and must be the same memory as input i.
func (k *kernel) wide(i int, v *value) { k.outs = max(k.outs, i+1); k.put("wide", i, v) }

// poly is c[0]·xⁿ + … + c[n].
func (k *kernel) poly(x *value, c ...float64) *value {
	p := k.num(c[0])
	for _, c := range c[1:] {
		p = k.fma(p, x, k.num(c))
	}
	return p
}

func (k *kernel) neg(a *value) *value { return k.mul(a, k.num(-1)) }
func (k *kernel) abs(a *value) *value { return k.and(a, k.bits(1<<31-1)) }

// inverse is 1/a.
func (k *kernel) inverse(a *value) *value { return k.div(k.num(1), a) }
