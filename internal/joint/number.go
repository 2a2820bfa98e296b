package joint

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"memopt/internal/graph"
)

// number is a whole number of a recording, or a formula of its dims as a text.
type number struct{ graph.Dim }

func (n *number) UnmarshalJSON(text []byte) error {
	if text[0] != '"' {
		i, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return &json.UnmarshalTypeError{Value: kindOf(text), Type: reflect.TypeFor[int64]()}
		}
		n.Dim = graph.Num(i)
		return nil
	}
	var formula string
	if err := json.Unmarshal(text, &formula); err != nil {
		return err
	}
	d, err := graph.ParseDim(formula)
	if err != nil {
		return fmt.Errorf("%q is no formula: %w", formula, err)
	}
	if _, is := d.Const(); is { // a number is written as one
		return &json.UnmarshalTypeError{Value: "string", Type: reflect.TypeFor[int64]()}
	}
	n.Dim = d
	return nil
}

// kindOf is JSON's term for a value that is no text.
func kindOf(text []byte) string {
	switch text[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "bool"
	}
	return "number " + string(text)
}

// within reports whether a number is from 0 to a limit. What a formula comes to is known once its dims have sizes.
func (n number) within(most int64) bool {
	i, known := n.Const()
	return !known || 0 <= i && i <= most
}

// shapeOf is the shape of numbers.
func shapeOf(dims []number) graph.Shape {
	s := make(graph.Shape, len(dims))
	for i, d := range dims {
		s[i] = d.Dim
	}
	return s
}

// parseShape reads what graph.Shape prints, without its brackets.
func parseShape(text string) (graph.Shape, error) {
	s := graph.Shape{}
	for text != "" {
		depth, end := 0, len(text)
		for i, c := range text {
			if c == '(' {
				depth++
			} else if c == ')' {
				depth--
			} else if c == ',' && depth == 0 {
				end = i
				break
			}
		}
		d, err := graph.ParseDim(text[:end])
		if err != nil {
			return nil, err
		}
		s = append(s, d)
		text = strings.TrimPrefix(text[min(end+1, len(text)):], " ")
	}
	return s, nil
}
