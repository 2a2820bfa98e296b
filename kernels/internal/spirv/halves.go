package spirv

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	bufferLine   = regexp.MustCompile(`(?m)^layout\(binding = (\d+)\) (readonly )?buffer (\w+) \{ (\w+) (\w+)\[\]; \};.*$`)
	commentText  = regexp.MustCompile(`(?m)[ \t]*//.*$`)
	floatBuffers = map[string]bool{"float": true, "vec4": true}
)

// TypesConstant is the id of the specialization constant with the buffers' element types,
// two bits per binding: float32, float16, bfloat16.
const TypesConstant = 20

// halfPreamble converts between 16-bit floats (float16 is 1, bfloat16 is 2) and float32,
// rounding to nearest even, which packHalf2x16 need not do.
const halfPreamble = `
layout(constant_id = 20) const uint TYPES = 0; // what a buffer holds, two bits for each binding
float widened(uint kind, uint h) { return kind == 2 ? uintBitsToFloat(h << 16) : unpackHalf2x16(h & 0xffffu).x; }
uint narrowed(uint kind, float v) {
	uint u = floatBitsToUint(v), m = u & 0x7fffffffu, s = u >> 16 & 0x8000u;
	if (kind == 2) return m > 0x7f800000u ? s | 0x7fc0u : s | (m + 0x7fffu + (m >> 16 & 1u)) >> 16;
	if (m > 0x7f800000u) return s | 0x7e00u;
	if (m >= 0x477ff000u) return s | 0x7c00u;
	if (m < 0x38800000u) return s | uint(roundEven(uintBitsToFloat(m) * 16777216.0));
	return s | (m + 0xfffu + (m >> 13 & 1u) - 0x38000000u) >> 13;
}
`

// Halves rewrites a shader's text for 16-bit floats: float buffers become buffers of
// 32-bit words, accessed through functions. A store changes only its half of a word, as
// the other half may belong to another invocation.
func Halves(text string, args []string) string {
	kindOf := bufferKinds(args)
	text = commentText.ReplaceAllString(text, "")
	declared, names := map[string]bool{}, map[string]bool{}
	text = bufferLine.ReplaceAllStringFunc(text, func(line string) string {
		m := bufferLine.FindStringSubmatch(line)
		binding, readonly, kind, name := m[1], m[2], kindOf(m[4]), m[5]
		if !floatBuffers[kind] {
			return line
		}
		names[name] = true
		words, out := "words"+binding, ""
		if !declared[words] {
			declared[words] = true
			out = fmt.Sprintf("layout(binding = %s) %sbuffer Words%s { uint %s[]; };\n", binding, readonly, binding, words)
		}
		form, stores := scalarHalf, scalarStore
		if kind == "vec4" {
			form, stores = vectorHalf, vectorStore
		}
		if readonly == "" {
			form += stores
		}
		return out + strings.NewReplacer("NAME", name, "WORDS", words, "KIND", "(TYPES >> "+binding+"*2 & 3u)").Replace(form)
	})
	at := strings.Index(text, "layout(binding")
	return rewriteHalves(text[:at], names) + halfPreamble + rewriteHalves(text[at:], names)
}

// bufferKinds resolves a shader's element type macros, which args define.
func bufferKinds(args []string) func(string) string {
	defines := map[string]string{}
	for _, a := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(a, "-D"), "=")
		defines[name] = value
	}
	return func(kind string) string {
		if to := defines[kind]; to != "" {
			return to
		}
		return kind
	}
}

// FloatBindings returns the bindings that a shader declares as float buffers.
func FloatBindings(text string, args []string) map[int]bool {
	kindOf, floats := bufferKinds(args), map[int]bool{}
	for _, m := range bufferLine.FindAllStringSubmatch(text, -1) {
		if k, _ := strconv.Atoi(m[1]); floatBuffers[kindOf(m[4])] {
			floats[k] = true
		}
	}
	return floats
}

const (
	scalarHalf = `float load_NAME(uint i) {
	if (KIND == 0) return uintBitsToFloat(WORDS[i]);
	return widened(KIND, WORDS[i >> 1] >> 16 * (i & 1));
}
`
	scalarStore = `void store_NAME(uint i, float v) {
	if (KIND == 0) WORDS[i] = floatBitsToUint(v);
	else atomicXor(WORDS[i >> 1], ((WORDS[i >> 1] >> 16 * (i & 1) ^ narrowed(KIND, v)) & 0xffffu) << 16 * (i & 1));
}
`
	vectorHalf = `vec4 load_NAME(uint i) {
	if (KIND == 0) return uintBitsToFloat(uvec4(WORDS[4 * i], WORDS[4 * i + 1], WORDS[4 * i + 2], WORDS[4 * i + 3]));
	uint u = WORDS[2 * i], v = WORDS[2 * i + 1];
	return vec4(widened(KIND, u), widened(KIND, u >> 16), widened(KIND, v), widened(KIND, v >> 16));
}
`
	vectorStore = `void store_NAME(uint i, vec4 v) {
	if (KIND == 0) {
		WORDS[4 * i] = floatBitsToUint(v.x);
		WORDS[4 * i + 1] = floatBitsToUint(v.y);
		WORDS[4 * i + 2] = floatBitsToUint(v.z);
		WORDS[4 * i + 3] = floatBitsToUint(v.w);
		return;
	}
	WORDS[2 * i] = narrowed(KIND, v.x) | narrowed(KIND, v.y) << 16;
	WORDS[2 * i + 1] = narrowed(KIND, v.z) | narrowed(KIND, v.w) << 16;
}
`
)

var indexedName = regexp.MustCompile(`\b(\w+)\[`)

// rewriteHalves replaces name[i] by a call that loads, and name[i] = x; by one that stores.
func rewriteHalves(text string, names map[string]bool) string {
	var b strings.Builder
	for {
		m := indexedName.FindStringSubmatchIndex(text)
		if m == nil {
			b.WriteString(text)
			return b.String()
		}
		name := text[m[2]:m[3]]
		if !names[name] {
			b.WriteString(text[:m[1]])
			text = text[m[1]:]
			continue
		}
		b.WriteString(text[:m[0]])
		end := closing(text, m[1])
		index := rewriteHalves(text[m[1]:end], names)
		text = text[end+1:]
		assigns := assignment.FindStringSubmatch(text)
		if assigns == nil {
			fmt.Fprintf(&b, "load_%s(%s)", name, index)
			continue
		}
		text = text[len(assigns[0])-1:]
		stop := strings.Index(text, ";")
		value := rewriteHalves(text[:stop], names)
		if assigns[1] != "" {
			value = fmt.Sprintf("load_%s(%s) %s (%s)", name, index, assigns[1], value)
		}
		fmt.Fprintf(&b, "store_%s(%s, %s)", name, index, value)
		text = text[stop:]
	}
}

// assignment matches what follows the element in an assignment.
var assignment = regexp.MustCompile(`^ ([-+*/]?)= `)

// closing is the index of the bracket that closes the one opened before from.
func closing(text string, from int) int {
	depth := 1
	for i := from; ; i++ {
		switch text[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
}
