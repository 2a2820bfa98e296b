package onnx

import "google.golang.org/protobuf/encoding/protowire"

// Strip removes the contents of some initializers from a valid model. To read the result, they must be replaced
// (From.Given).
func Strip(src []byte, names map[string]bool) []byte {
	return rewritten(src, modelGraph, func(g []byte) []byte {
		return rewritten(g, graphInit, func(t []byte) []byte {
			name := ""
			each(t, func(num fieldNum, field, value []byte) {
				if num == tensorName {
					name = string(value)
				}
			})
			if !names[name] {
				return t
			}
			out := make([]byte, 0, 64)
			each(t, func(num fieldNum, field, _ []byte) {
				switch num {
				case tensorRaw, tensorFloats, tensorInt32s, tensorInt64s, tensorDoubles, tensorUint64s:
				default:
					out = append(out, field...)
				}
			})
			return out
		})
	})
}

// rewritten is a message with its fields of one number rewritten.
func rewritten(src []byte, which fieldNum, form func([]byte) []byte) []byte {
	var out []byte
	each(src, func(num fieldNum, field, value []byte) {
		if num == which && value != nil {
			out = protowire.AppendTag(out, num, protowire.BytesType)
			out = protowire.AppendBytes(out, form(value))
			return
		}
		out = append(out, field...)
	})
	return out
}

// each calls show for the fields of a valid message, with the whole field, and its value if it is bytes.
func each(src []byte, show func(num fieldNum, field, value []byte)) {
	for len(src) > 0 {
		num, typ, n := protowire.ConsumeTag(src)
		if n < 0 {
			return
		}
		k := protowire.ConsumeFieldValue(num, typ, src[n:])
		if k < 0 {
			return
		}
		var value []byte
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(src[n:])
			if value == nil {
				value = []byte{}
			}
		}
		show(num, src[:n+k], value)
		src = src[n+k:]
	}
}
