package flight

import "math"

// z is the normal quantile of a 95 % interval (spec section 8).
const z = 1.959963984540054

// Rating returns the field rating: the Wilson lower bound of confirmed among
// confirmed and contradicted transactions, times 24, rounded to two places. It is
// nil when nothing is decided, and is never to be shown without its coverage.
func Rating(confirmed, contradicted uint64) *float64 {
	n := float64(confirmed + contradicted)
	if n == 0 {
		return nil
	}
	p := float64(confirmed) / n
	// The conversions keep a product from being fused with the sum around it, which
	// some processors do and which would round otherwise than everywhere else.
	spread := float64(z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n)))
	low := (p + z*z/(2*n) - spread) / (1 + z*z/n)
	r := math.Floor(float64(24*max(low, 0)*100)+0.5) / 100
	return &r
}
