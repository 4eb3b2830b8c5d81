package canon_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"karatum/flight/canon"
)

// modelNumber is ECMAScript's Number::toString by its own words, in exact
// arithmetic: the integers n, k and s with the fewest digits k for which the
// double nearest to s * 10^(n-k) is f, among those s the closest to f, and of two
// as close the even one.
func modelNumber(f float64) string {
	if f == 0 {
		return "0"
	}
	if f < 0 {
		return "-" + modelNumber(-f)
	}
	exact := new(big.Rat).SetFloat64(f)
	n := pointPosition(exact)
	for k := 1; ; k++ {
		if s := bestDigits(exact, f, n, k); s != nil {
			digits := s.String() // k of them, or a 1 and k zeros where it is 10^n
			return modelLayout(digits[:k], n+len(digits)-k, k)
		}
	}
}

// pointPosition returns n with 10^(n-1) <= x < 10^n.
func pointPosition(x *big.Rat) int {
	n := -330
	for x.Cmp(pow10(n)) >= 0 {
		n++
	}
	return n
}

func pow10(n int) *big.Rat {
	p := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(n, -n))), nil))
	if n < 0 {
		p.Inv(p)
	}
	return p
}

// bestDigits returns the k digits closest to exact that read back as f, or nil.
func bestDigits(exact *big.Rat, f float64, n, k int) *big.Int {
	unit := pow10(n - k)
	q := new(big.Rat).Quo(exact, unit)
	low := new(big.Int).Quo(q.Num(), q.Denom())
	var best *big.Int
	var gap *big.Rat
	for _, s := range []*big.Int{low, new(big.Int).Add(low, big.NewInt(1))} {
		x := new(big.Rat).Mul(new(big.Rat).SetInt(s), unit)
		back, _ := x.Float64()
		d := new(big.Rat).Sub(x, exact)
		d.Abs(d)
		if back == f && (best == nil || d.Cmp(gap) < 0 || d.Cmp(gap) == 0 && s.Bit(0) == 0) {
			best, gap = s, d
		}
	}
	return best
}

func modelLayout(digits string, n, k int) string {
	switch {
	case k <= n && n <= 21:
		return digits + strings.Repeat("0", n-k)
	case 0 < n && n <= 21:
		return digits[:n] + "." + digits[n:]
	case -6 < n && n <= 0:
		return "0." + strings.Repeat("0", -n) + digits
	}
	e := strconv.Itoa(n - 1)
	if n > 0 {
		e = "+" + e
	}
	if k > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	return digits + "e" + e
}

// doubles calls visit with edge cases and n doubles drawn by bit pattern and by
// decimal shape.
func doubles(n int, visit func(f float64)) {
	for e := -330; e <= 308; e++ {
		f, _ := strconv.ParseFloat("1e"+strconv.Itoa(e), 64)
		for _, x := range []float64{f, math.Nextafter(f, 0), math.Nextafter(f, math.Inf(1)), -f} {
			visit(x)
		}
	}
	for e := -1074; e <= 1023; e++ {
		visit(math.Ldexp(1, e))
	}
	for _, f := range []float64{math.MaxFloat64, math.SmallestNonzeroFloat64, 1<<53 - 1, 1 << 53, 1<<53 + 2, 999999999999999, 1e15, 1e15 + 0.125, 5e-324, 2.2250738585072014e-308, 0.1 + 0.2} {
		visit(f)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range n {
		if f := math.Float64frombits(rnd.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			visit(f)
		}
		visit(float64(rnd.Int64N(1e6)) / math.Pow(10, float64(rnd.IntN(9))))
		visit(float64(int64(rnd.Uint64() >> rnd.IntN(63))))
		visit(math.Ldexp(float64(rnd.IntN(1<<20)), rnd.IntN(120)-60))
	}
}

func TestNumbersAgainstExactArithmetic(t *testing.T) {
	seen := 0
	doubles(300, func(f float64) {
		seen++
		got := string(canon.AppendNumber(nil, f))
		if want := modelNumber(f); got != want {
			t.Errorf("AppendNumber(%b) = %s, want %s", f, got, want)
		}
		v, err := canon.Parse([]byte(got), 0)
		if err != nil || v.Num != f {
			t.Errorf("Parse(%s) = %v, %v, want %v", got, v.Num, err, f)
		}
	})
	t.Logf("%d doubles", seen)
}

// An integer literal is accepted exactly where ECMAScript prints its double as the
// same number.
func TestUnsafeIntegersAgainstExactArithmetic(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	accepted, refused := 0, 0
	check := func(lit string) {
		f, err := strconv.ParseFloat(lit, 64)
		if err != nil {
			return // beyond the range
		}
		want, _ := new(big.Rat).SetString(lit)
		printed, _ := new(big.Rat).SetString(modelNumber(f))
		if _, err := canon.Parse([]byte(lit), 0); (err == nil) != (want.Cmp(printed) == 0) {
			t.Errorf("Parse(%s): %v, ECMAScript prints %s", lit, err, modelNumber(f))
		} else if err == nil {
			accepted++
		} else {
			refused++
		}
	}
	for range 1000 {
		n := new(big.Int).Lsh(new(big.Int).SetUint64(rnd.Uint64()), uint(rnd.IntN(16)))
		n.Rsh(n.Add(n, big.NewInt(rnd.Int64N(9))), uint(rnd.IntN(64)))
		check(n.String())
		check("-" + n.String())
		check("1" + n.String() + strings.Repeat("0", rnd.IntN(30)) + "0")
		check(new(big.Int).SetUint64(1<<53 + rnd.Uint64N(1000)).String())
	}
	if accepted < 500 || refused < 500 {
		t.Errorf("%d accepted, %d refused: the test draws too few of one", accepted, refused)
	}
}
