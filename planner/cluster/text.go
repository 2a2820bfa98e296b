package cluster

import (
	"fmt"
	"strconv"
	"strings"
)

// Text is requests in ONNX Runtime's spelling, with layer sets in ours.
func Text(requests ...Request) string {
	var parts []string
	for _, r := range requests {
		count := fmt.Sprint(r.Count)
		if len(r.Places) > 0 {
			var places []string
			for _, p := range r.Places {
				place := strconv.Itoa(p.First)
				if p.Last != p.First {
					place += "-" + strconv.Itoa(p.Last)
				}
				places = append(places, place)
			}
			count = "{" + strings.Join(places, ",") + "}"
		}
		parts = append(parts, fmt.Sprintf("%s:%d:%s", r.ID, r.Type, count))
	}
	return strings.Join(parts, ",")
}

// ParseText reads what Text wrote. The IDs of clusters hold no colon.
func ParseText(s string) (requests []Request, err error) {
	for s != "" {
		id, rest, _ := strings.Cut(s, ":")
		strategy, rest, ok := strings.Cut(rest, ":")
		r := Request{ID: id}
		if r.Type, err = strconv.Atoi(strategy); err != nil || !ok {
			return nil, fmt.Errorf("the request %q is not ID:strategy:count", s)
		}
		if set, isSet := strings.CutPrefix(rest, "{"); isSet {
			r.Count = -1 // all that are named
			set, rest, ok = strings.Cut(set, "}")
			for place := range strings.SplitSeq(set, ",") {
				first, last, several := strings.Cut(place, "-")
				if !several {
					last = first
				}
				from, err1 := strconv.Atoi(first)
				to, err2 := strconv.Atoi(last)
				if err1 != nil || err2 != nil || !ok {
					return nil, fmt.Errorf("the request %q should name layers like {0-3,7}", s)
				}
				r.Places = append(r.Places, Places{First: from, Last: to})
			}
			s = strings.TrimPrefix(rest, ",")
		} else {
			var count string
			count, s, _ = strings.Cut(rest, ",")
			if r.Count, err = strconv.Atoi(count); err != nil {
				return nil, fmt.Errorf("the request for %q has the count %q", id, count)
			}
		}
		requests = append(requests, r)
	}
	return requests, nil
}
