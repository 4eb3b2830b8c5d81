package canon

// sizes counts the elements of each container, in the order in which they open. It
// ends early where the text cannot be JSON, so that each element counted has at least
// two bytes; the parser says what is wrong. An empty container counts as one.
//
// A slice that grows as its elements come leaves several times its size to the
// collector, which for a large text was most of what reading it took.
func sizes(text []byte, maxDepth int) (out []uint32) {
	open := make([]int, 0, min(maxDepth, 64)) // indices of out
	prev := byte(',')                         // the last byte outside of strings that is no space
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch c {
		case ' ', '\t', '\n', '\r':
			continue
		case '"':
			i = stringEnd(text, i)
		case '[', '{':
			if len(open) == maxDepth {
				return out
			}
			open = append(open, len(out))
			out = append(out, 1)
		case ']', '}':
			if len(open) == 0 || prev == ',' {
				return out
			}
			open = open[:len(open)-1]
		case ',':
			if len(open) == 0 || prev == ',' || prev == '[' || prev == '{' {
				return out
			}
			out[open[len(open)-1]]++
		}
		prev = c
	}
	return out
}

// stringEnd returns the index of the quote that ends the string which starts at i, or
// the length of the text.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
