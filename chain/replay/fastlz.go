package replay

// Constants of FastLZ's first level.
const (
	lzHashes   = 1 << 13
	lzDistance = 1 << 13 // matches are nearer than that
	lzTail     = 13      // the last bytes start no match
	lzMatch    = 262     // the longest match of one instruction
	lzLiterals = 32      // the longest run of literals of one instruction
)

// fastLZSize is the length of the data under FastLZ, which is not compressed in
// fact: the fee depends on the exact choices of the reference implementation, a
// greedy search over the last position of each hash of three bytes.
func fastLZSize(data []byte) int {
	limit := len(data) - lzTail
	var last [lzHashes]int
	size, anchor := 0, 0
	at := 2
	for at < limit {
		match, found := 0, false
		for at < limit && !found {
			h := lzHash(data, at)
			match, last[h] = last[h], at
			found = at-match < lzDistance && lzThree(data, at) == lzThree(data, match)
			at++
		}
		if !found || at >= limit {
			break
		}
		at--
		size += literalsSize(at - anchor)
		n := lzCommon(data, match+3, at+3, limit+9)
		size += matchSize(n)
		at += n
		last[lzHash(data, at)] = at
		last[lzHash(data, at+1)] = at + 1
		at += 2
		anchor = at
	}
	return size + literalsSize(len(data)-anchor)
}

func lzThree(d []byte, i int) uint32 { return uint32(d[i]) | uint32(d[i+1])<<8 | uint32(d[i+2])<<16 }

func lzHash(d []byte, i int) uint32 { return lzThree(d, i) * 2654435769 >> 19 }

// lzCommon counts the bytes that agree before end, and the first that does not.
func lzCommon(d []byte, a, b, end int) int {
	n := 0
	for b+n < end {
		n++
		if d[a+n-1] != d[b+n-1] {
			break
		}
	}
	return n
}

func literalsSize(n int) int {
	size := n / lzLiterals * (lzLiterals + 1)
	if rest := n % lzLiterals; rest != 0 {
		size += rest + 1
	}
	return size
}

func matchSize(n int) int {
	n--
	size := n / lzMatch * 3
	if n%lzMatch >= 6 {
		return size + 3
	}
	return size + 2
}
