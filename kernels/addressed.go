package kernels

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"memopt/memopt/graph"
)

// Buffers by their addresses: a kernel's other form, for devices that have them.
// Neither lowerings nor shaders know of it. Where a shader declares a buffer at a
// binding, this form declares what lies at an address, and addresses stand behind
// the push constants, in the order of bindings. A driver need not look up a
// buffer then, nor whether an index is within it.
//
// Descriptors are the form that all others are held against: the validation layer
// sees through them which bytes a kernel touches, and through addresses nothing.

// addressed declares the form of a kernel whose buffers are at addresses. What
// becomes of 16-bit floats is as without: descriptors.
func addressed(k *graph.Kernel) *graph.Kernel {
	form := sourceOf(k).form("-addressed", addressedText)
	form.Addressed = true
	return halvedAs(form, k)
}

// elementBytes is the size of what buffers of kernels with this form hold.
var elementBytes = map[string]int{"float": 4, "uint": 4, "uint64_t": 8}

// addressedText makes of a shader's text its form for addresses.
func addressedText(text string) string {
	blocks, bindings := map[string]string{}, 0 // by a buffer's name: what is at its address
	text = bufferLine.ReplaceAllStringFunc(text, func(line string) string {
		m := bufferLine.FindStringSubmatch(line)
		binding, _ := strconv.Atoi(m[1])
		readonly, block, kind, name := m[2], m[3], m[4], m[5]
		blocks[name], bindings = fmt.Sprintf("%s(addresses[%d])", block, binding), max(bindings, binding+1)
		return fmt.Sprintf("layout(buffer_reference, std430, buffer_reference_align = %d) %sbuffer %s { %s %s[]; };", elementBytes[kind], readonly, block, kind, name)
	})
	text = element.ReplaceAllStringFunc(text, func(element string) string {
		name, _, _ := strings.Cut(element, "[")
		if at := blocks[name]; at != "" {
			return at + "." + element
		}
		return element
	})
	const extensions = "\n#extension GL_EXT_buffer_reference : require\n#extension GL_EXT_buffer_reference_uvec2 : require\n"
	text = strings.Replace(text, "\n#extension", extensions+"#extension", 1)
	return pushEnd.ReplaceAllString(text, fmt.Sprintf("${1}\tuvec2 addresses[%d];\n};", bindings))
}

// element is an element of a list, up to its index; what declares a list has none.
var element = regexp.MustCompile(`\b\w+\[[^\]]`)

// pushEnd is the push constants up to their end.
var pushEnd = regexp.MustCompile(`(?s)(layout\(push_constant\) uniform \w+ \{.*?)\};`)
