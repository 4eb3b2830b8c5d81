package sdk

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"karatum/flight"
	"karatum/flight/canon"
)

// seed makes the random input of this file. It is printed with every failure.
const seed = 20261130

func source() *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// ask sends one line for each case to a harness and returns its answers.
func ask(t *testing.T, lines []string, command ...string) []string {
	t.Helper()
	out := run(t, strings.Join(lines, "\n")+"\n", command[0], command[1:]...)
	answers := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(answers) != len(lines) {
		t.Fatalf("%d answers to %d lines", len(answers), len(lines))
	}
	return answers
}

// agree compares a harness with the answers wanted.
func agree(t *testing.T, who string, cases, want, got []string) {
	t.Helper()
	for i, g := range got {
		if g != want[i] {
			t.Fatalf("seed %d, case %d: %s\n%s says %s\nwant %s", seed, i, readable(cases[i]), who, readable(g), readable(want[i]))
		}
	}
}

// readable shows hex of text as text.
func readable(s string) string {
	raw, err := hex.DecodeString(strings.TrimPrefix(s, "0x"))
	if err != nil || len(raw) < 2 || raw[0] < ' ' {
		return s
	}
	return fmt.Sprintf("%.2000q", raw)
}

func hexLine(b []byte) string { return fmt.Sprintf("0x%x", b) }

func askJS(t *testing.T, op string, lines []string) []string {
	return ask(t, lines, node(t), "testdata/harness.mjs", op)
}

func askPython(t *testing.T, op string, lines []string) []string {
	return ask(t, lines, python(t), "testdata/harness.py", op)
}

// noble returns the folder with the oracle's packages.
func noble(t *testing.T) string {
	dir, err := filepath.Abs("../../.ci/npm-sdk/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "@noble", "curves")); err != nil {
		missing(t, "run npm ci --prefix .ci/npm-sdk for the signature oracle")
	}
	return dir
}

// scalarEdges are values around the limits that a signature's r and s meet.
func scalarEdges() []*big.Int {
	n, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
	p, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f", 16)
	gx, _ := new(big.Int).SetString("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", 16)
	half := new(big.Int).Rsh(n, 1)
	edges := []*big.Int{big.NewInt(0), gx, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))}
	for _, middle := range []*big.Int{big.NewInt(2), half, n, p, new(big.Int).Sub(p, n)} {
		for d := int64(-2); d <= 2; d++ {
			edges = append(edges, new(big.Int).Add(middle, big.NewInt(d)))
		}
	}
	return edges
}

func random32(rng *rand.Rand) []byte {
	b := make([]byte, 32)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func pick[T any](rng *rand.Rand, set ...T) T { return set[rng.IntN(len(set))] }

// signatureCases returns lines of digest and signature: good ones of every form,
// ones with a flipped bit, and ones built from edges.
func signatureCases(t *testing.T, rng *rand.Rand, n int) []string {
	edges := scalarEdges()
	edge := func() []byte { return pick(rng, edges...).FillBytes(make([]byte, 32)) }
	var out []string
	for i := range n {
		digest := random32(rng)
		if i%5 == 0 {
			digest = edge()
		}
		key, err := flight.KeyFromBytes(random32(rng))
		if err != nil {
			t.Fatal(err)
		}
		s := key.Sign(flight.Hash(digest))
		raw := s[:]
		switch i % 10 {
		case 0, 1, 2, 3: // good, as it is
		case 4:
			raw[64] -= 27
		case 5: // EIP-2098
			raw[32] |= (raw[64] - 27) << 7
			raw = raw[:64]
		case 6:
			raw[rng.IntN(65)] ^= 1 << rng.IntN(8)
		case 7:
			copy(raw[32*rng.IntN(2):], edge())
		case 8:
			copy(raw, edge())
			copy(raw[32:], pick(rng, edge(), random32(rng)))
			raw = raw[:pick(rng, 64, 65)]
		case 9:
			raw[64] = byte(rng.Uint32())
			raw = raw[:pick(rng, 0, 1, 63, 64, 65, 65)]
			if rng.IntN(8) == 0 {
				raw = append(slices.Clone(raw), 27)
			}
		}
		out = append(out, hexLine(digest)+" "+hexLine(raw))
	}
	return append(out, infinity(t)...)
}

// infinity returns signatures whose public key would be the point at infinity:
// with R = kG and digest = s*k, s*R - digest*G is nothing.
func infinity(t *testing.T) []string {
	n := scalarEdges()[3+2*5+2]
	var out []string
	for k := int64(1); k <= 20; k++ {
		key, err := flight.KeyFromBytes(big.NewInt(k).FillBytes(make([]byte, 32)))
		if err != nil {
			t.Fatal(err)
		}
		probe := key.Sign(flight.Hash{31: 1}) // s = 1/k' for its own nonce, of no use here but for a valid form
		s := new(big.Int).SetBytes(probe[32:64])
		digest := new(big.Int).Mod(new(big.Int).Mul(s, big.NewInt(k)), n)
		raw := append(pointX(t, k), probe[32:64]...)
		for v := byte(27); v <= 28; v++ {
			out = append(out, hexLine(digest.FillBytes(make([]byte, 32)))+" "+hexLine(append(slices.Clone(raw), v)))
		}
	}
	return out
}

// pointX returns the x of kG on secp256k1 by repeated affine addition.
func pointX(t *testing.T, k int64) []byte {
	p, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f", 16)
	gx := scalarEdges()[1]
	gy, _ := new(big.Int).SetString("483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8", 16)
	x, y := new(big.Int).Set(gx), new(big.Int).Set(gy)
	for i := int64(1); i < k; i++ {
		num, den := new(big.Int).Sub(y, gy), new(big.Int).Sub(x, gx)
		if i == 1 {
			num, den = new(big.Int).Mul(big.NewInt(3), new(big.Int).Mul(gx, gx)), new(big.Int).Lsh(gy, 1)
		}
		m := new(big.Int).Mod(new(big.Int).Mul(num, new(big.Int).ModInverse(new(big.Int).Mod(den, p), p)), p)
		x3 := new(big.Int).Sub(new(big.Int).Sub(new(big.Int).Mul(m, m), x), gx)
		x3.Mod(x3, p)
		y3 := new(big.Int).Sub(new(big.Int).Mul(m, new(big.Int).Sub(x, x3)), y)
		x, y = x3, y3.Mod(y3, p)
	}
	return x.FillBytes(make([]byte, 32))
}

// TestSignatures compares recovery with noble and with the node's own code on
// 10,000 signatures, a part of them with Python as well.
func TestSignatures(t *testing.T) {
	t.Parallel()
	dir := noble(t)
	cases := signatureCases(t, source(), 10000)
	want := ask(t, cases, node(t), "testdata/noble.mjs", dir, "recover")
	refused := 0
	for i, line := range cases {
		digest, signature, _ := strings.Cut(line, " ")
		if got := goRecover(t, digest, signature); got != want[i] {
			t.Fatalf("seed %d, case %d: %s\nflight says %s, noble %s", seed, i, line, got, want[i])
		}
		if want[i] == "error SIGNATURE" {
			refused++
		}
	}
	if refused < len(cases)/5 || refused > len(cases)/2 {
		t.Errorf("%d of %d signatures are refused: the input tests too little", refused, len(cases))
	}
	agree(t, "JavaScript", cases, want, askJS(t, "recover", cases))
	few := len(cases) - 500
	agree(t, "Python", cases[few:], want[few:], askPython(t, "recover", cases[few:]))
}

func goRecover(t *testing.T, digest, signature string) string {
	d, err := flight.ParseHash(digest)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := flight.ParseHex(signature)
	if err != nil {
		t.Fatal(err)
	}
	s, err := flight.ParseSignature(raw)
	if err != nil {
		return "error SIGNATURE"
	}
	a, err := s.Recover(d)
	if err != nil {
		return "error SIGNATURE"
	}
	return a.String()
}

func TestSigning(t *testing.T) {
	t.Parallel()
	dir, rng := noble(t), source()
	var cases []string
	for range 200 {
		cases = append(cases, hexLine(random32(rng))+" "+hexLine(pick(rng, random32(rng), pick(rng, scalarEdges()...).FillBytes(make([]byte, 32)))))
	}
	want := ask(t, cases, node(t), "testdata/noble.mjs", dir, "sign")
	agree(t, "JavaScript", cases, want, askJS(t, "sign", cases))
	agree(t, "Python", cases[:50], want[:50], askPython(t, "sign", cases[:50]))
}

func TestPythonAgainstOpenSSL(t *testing.T) {
	t.Parallel()
	command := ""
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if _, err := try(t.Context(), "", name, "-c", "import cryptography"); err == nil && command == "" {
			command = name
		}
	}
	if command == "" {
		missing(t, "install the Debian package python3-cryptography")
	}
	if got := run(t, "", command, "testdata/openssl.py", strconv.Itoa(seed), "150"); got != "agree\n" {
		t.Error(got)
	}
}

func TestKeccak(t *testing.T) {
	t.Parallel()
	dir, rng := noble(t), source()
	var cases []string
	for n := range 420 { // over three blocks of 136 bytes
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		cases = append(cases, hexLine(b))
	}
	want := ask(t, cases, node(t), "testdata/noble.mjs", dir, "keccak")
	agree(t, "JavaScript", cases, want, askJS(t, "keccak", cases))
	agree(t, "Python", cases, want, askPython(t, "keccak", cases))
}

// randomJSON writes a random value with random spacing and escapes. Keys of one
// object are made distinct.
func randomJSON(rng *rand.Rand, b *bytes.Buffer, depth int) {
	space := func() { b.WriteString(pick(rng, "", "", "", " ", "\n\t", "\r ")) }
	space()
	defer space()
	switch kind := rng.IntN(10); {
	case depth > 0 && kind < 2:
		b.WriteByte('[')
		for i := range rng.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			randomJSON(rng, b, depth-1)
		}
		b.WriteByte(']')
	case depth > 0 && kind < 5:
		b.WriteByte('{')
		for i := range rng.IntN(5) {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			randomString(rng, b, fmt.Sprint(i))
			space()
			b.WriteByte(':')
			randomJSON(rng, b, depth-1)
		}
		b.WriteByte('}')
	case kind < 7:
		randomString(rng, b, "")
	case kind == 7:
		b.WriteString(pick(rng, "true", "false", "null"))
	default:
		b.WriteString(randomNumber(rng))
	}
}

// randomString ends in tail. Whether a value stands escaped or raw is drawn.
func randomString(rng *rand.Rand, b *bytes.Buffer, tail string) {
	b.WriteByte('"')
	for range rng.IntN(5) {
		r := pick(rng, rune(rng.IntN(0x80)), rune(rng.IntN(0x800)), rune(rng.IntN(0x10000)), 0x10000+rune(rng.IntN(0x100000)), 0x2028, 0xd7ff, 0xe000, 0xfeff, 0xfffd)
		if surrogate := r >= 0xd800 && r < 0xe000; r < ' ' || r == '"' || r == '\\' || surrogate || r < 0x10000 && rng.IntN(4) == 0 {
			fmt.Fprintf(b, pick(rng, `\u%04x`, `\u%04X`), r)
		} else {
			b.WriteRune(r)
		}
	}
	if rng.IntN(6) == 0 {
		b.WriteString(pick(rng, `\n`, `\/`, `\"`, `\\`, `\b\f\r\t`, `\ud83d\ude00`, `\ude00\ud83d`, `__proto__`))
	}
	b.WriteString(tail + `"`)
}

func randomNumber(rng *rand.Rand) string {
	f := math.Float64frombits(rng.Uint64())
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0.1
	}
	switch rng.IntN(7) {
	case 0:
		return strconv.FormatInt(int64(rng.Uint64())>>rng.IntN(64), 10) // may be unsafe
	case 1:
		return strconv.FormatFloat(math.Trunc(rng.NormFloat64()*math.Pow(10, float64(rng.IntN(26)))), 'f', -1, 64)
	case 2:
		return strconv.FormatFloat(rng.NormFloat64()*math.Pow(10, float64(rng.IntN(44)-22)), pick(rng, byte('f'), 'e', 'E'), -1, 64)
	case 3:
		return pick(rng, "-0", "-0.0", "0e9", "1E+2", "1e-7", "1e21", "123456789012345680000", "9007199254740992", "4.35", "1e400", "5e-324", "2.5e-324", "1.7976931348623159e308")
	case 4:
		return strconv.FormatFloat(f, 'e', rng.IntN(25), 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// damage cuts, copies or changes bytes.
func damage(rng *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	at := rng.IntN(len(b) + 1)
	switch rng.IntN(4) {
	case 0:
		return b[:at]
	case 1:
		return slices.Insert(b, at, []byte(pick(rng, "\xff", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "\xe2\x82", "\x00", "\x1f", `"`, `\`, ",", ":", "}", "[", ".", "e", "0", "x", "\u00a0", "\ufeff", "\U0001f600"))...)
	case 2:
		end := at + rng.IntN(len(b)-at+1)
		return slices.Insert(b, end, b[at:end]...)
	}
	if at < len(b) {
		b[at] = byte(rng.Uint32())
	}
	return b
}

func goCanonical(text []byte) string {
	b, err := canon.Canonical(text)
	var e *canon.Error
	if errors.As(err, &e) {
		return "error " + string(e.Code)
	}
	return hexLine(b)
}

// TestCanonicalJSON compares the canonical bytes, or the code of the refusal,
// among JavaScript, Python, the node's own code and, where there are bytes, what
// the JavaScript engine's own JSON.stringify writes.
func TestCanonicalJSON(t *testing.T) {
	t.Parallel()
	rng := source()
	var cases, want, good, goodWant []string
	codes := map[string]int{}
	for i := range 12000 {
		var b bytes.Buffer
		randomJSON(rng, &b, 5)
		text := b.Bytes()
		if i%3 == 0 {
			text = damage(rng, text)
		}
		cases, want = append(cases, hexLine(text)), append(want, goCanonical(text))
		if code, bad := strings.CutPrefix(want[i], "error "); bad {
			codes[code]++
		} else {
			good, goodWant = append(good, cases[i]), append(goodWant, want[i])
		}
	}
	t.Log("refusals:", codes)
	for _, code := range []string{"SYNTAX", "TRAILING_DATA", "UNSAFE_INTEGER", "NON_FINITE", "INVALID_UTF8", "DUPLICATE_KEY"} {
		if codes[code] == 0 {
			t.Errorf("no case is refused with %s: the input tests too little", code)
		}
	}
	agree(t, "JavaScript", cases, want, askJS(t, "canonical", cases))
	agree(t, "Python", cases, want, askPython(t, "canonical", cases))
	agree(t, "JSON.stringify", good, goodWant, askJS(t, "native", good))
}

// TestHostileJSON sends the shapes that make careless parsers slow or crash.
func TestHostileJSON(t *testing.T) {
	t.Parallel()
	texts := []string{
		strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<19), strings.Repeat("9", 1<<20), "0." + strings.Repeat("9", 1<<20),
		"1e" + strings.Repeat("9", 1<<20), `"` + strings.Repeat("a", 2<<20) + `"`, `"` + strings.Repeat("\u20ac", 1<<19) + `"`,
		`"` + strings.Repeat(`\u0000`, 1<<18) + `"`, `"` + strings.Repeat("\\", 1<<20), strings.Repeat(" ", 1<<20) + "1",
		"[" + strings.Repeat("1,", 1<<18) + "1]", "-" + strings.Repeat("0", 1<<20), `"` + strings.Repeat("x", 1<<20) + "\xff",
	}
	var keys strings.Builder
	for i := range 60000 {
		fmt.Fprintf(&keys, `"%x":0,`, i)
	}
	texts = append(texts, "{"+keys.String()+`"end":1}`, "{"+keys.String()+`"0":1}`)
	var cases, want []string
	for _, text := range texts {
		cases, want = append(cases, hexLine([]byte(text))), append(want, goCanonical([]byte(text)))
	}
	agree(t, "JavaScript", cases, want, askJS(t, "canonical", cases))
	agree(t, "Python", cases, want, askPython(t, "canonical", cases))
}

// documents returns the vector file's disclosures, the tampered ones too, and its
// evidence.
func documents(t *testing.T) (disclosures, evidence []any) {
	text, err := os.ReadFile(vectors)
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Flight struct {
			Disclosures   []any
			Tampered      []struct{ Disclosure any }
			BrokenChain   any
			Equivocations []struct {
				Reason string
				A, B   struct {
					Header     any
					Signatures map[string]string
				}
			}
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	disclosures = v.Flight.Disclosures
	for _, x := range v.Flight.Tampered {
		disclosures = append(disclosures, x.Disclosure)
	}
	evidence = append(evidence, v.Flight.BrokenChain)
	for _, e := range v.Flight.Equivocations {
		a := map[string]any{"header": e.A.Header, "scheme": "eip712", "signature": e.A.Signatures["eip712"]}
		b := map[string]any{"header": e.B.Header, "scheme": "eip191", "signature": e.B.Signatures["eip191"]}
		evidence = append(evidence, map[string]any{"type": "karatum.equivocation.v1", "reason": e.Reason, "a": a, "b": b})
	}
	return disclosures, evidence
}

// mutate returns a copy of a JSON value with about one place changed.
func mutate(rng *rand.Rand, v any, chance float64) any {
	if rng.Float64() < chance {
		return change(rng, v)
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			switch {
			case rng.Float64() < chance/4:
				continue
			case rng.Float64() < chance/4:
				out[pick(rng, "extra", "__proto__", "claim", "prompt", "toString")] = v[k]
			}
			out[k] = mutate(rng, v[k], chance)
		}
		return out
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, mutate(rng, e, chance))
		}
		return out
	}
	return v
}

func change(rng *rand.Rand, v any) any {
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(v, "0x") && rng.IntN(3) > 0 {
			at := 2 + rng.IntN(len(v)-2)
			return v[:at] + pick(rng, "0", "7", "f", "A", "g", "", "00", "\n") + v[at+1:]
		}
		return pick[any](rng, v+"x", strings.ToUpper(v), "", " ", json.Number("1"), nil, "0x", "eip191", "tx.success", "erc20.transfer", "00", "1", strings.Repeat("\u20ac", 64), v+"\n", "a\u200bb", "..")
	case json.Number:
		n, _ := v.Int64()
		return pick[any](rng, json.Number(fmt.Sprint(n+1)), json.Number(fmt.Sprint(n-1)), json.Number(v.String()+".0"), json.Number(v.String()+".5"),
			json.Number("-0"), json.Number("0"), json.Number("9007199254740991"), json.Number("9007199254740992"), json.Number("1e3"), json.Number("65536"), v.String(), true, nil)
	case []any:
		return pick[any](rng, append(slices.Clone(v), "0x"+strings.Repeat("00", 32)), v[:len(v)/2], map[string]any{}, nil, "[]")
	}
	return pick[any](rng, nil, true, []any{}, map[string]any{}, "x", json.Number("2"))
}

func goDisclosure(text []byte) string {
	d, err := flight.ParseDisclosure(text)
	if err != nil {
		return "BAD_REQUEST"
	}
	r := d.Verify()
	var ce *flight.CheckError
	if errors.As(r.Err(), &ce) {
		return string(ce.Code)
	}
	return fmt.Sprintf("ok %s %s", r.StepHash, r.BatchID)
}

// TestDisclosures changes the vectors' disclosures at random and compares the
// verdicts: the first failing code, or the hashes.
func TestDisclosures(t *testing.T) {
	t.Parallel()
	rng := source()
	docs, _ := documents(t)
	var cases, want []string
	codes := map[string]int{}
	for i := range 2500 {
		text, err := json.Marshal(mutate(rng, docs[i%len(docs)], pick(rng, 0.01, 0.03, 0)))
		if err != nil {
			t.Fatal(err)
		}
		cases, want = append(cases, hexLine(text)), append(want, goDisclosure(text))
		code, _, _ := strings.Cut(want[i], " ")
		codes[code]++
	}
	t.Log("verdicts:", codes)
	for _, code := range []string{"ok", "BAD_REQUEST", "STEP_SCHEMA", "SIGNATURE", "STEP_BATCH", "PROOF", "PREV_HEAD", "HEAD", "REVEAL_KEY", "COMMITMENT", "CLAIM"} {
		if codes[code] == 0 {
			t.Errorf("no case ends in %s: the input tests too little", code)
		}
	}
	agree(t, "JavaScript", cases, want, askJS(t, "disclosure", cases))
	agree(t, "Python", cases[:300], want[:300], askPython(t, "disclosure", cases[:300]))
}

// goHeader returns the field at fault in a header, by the node's ingest rules.
func goHeader(header []byte) string {
	form := "0x" + strings.Repeat("1", 128) + "1b"
	_, err := flight.ParseBatch(fmt.Appendf(nil, `{"header":%s,"scheme":"eip712","signature":%q}`, header, form))
	var fe *flight.FieldError
	if errors.As(err, &fe) {
		return fe.Field
	}
	return "ok"
}

// TestHeaders changes one member of a possible header and compares which field is
// refused.
func TestHeaders(t *testing.T) {
	t.Parallel()
	rng := source()
	hash := func(c string) string { return "0x" + strings.Repeat(c, 64) }
	var cases, want []string
	fields := map[string]int{}
	for i := range 3000 {
		h := map[string]any{"agent": "0x" + strings.Repeat("a", 40), "stream": "main", "index": json.Number("3"), "fromSeq": json.Number("5"), "toSeq": json.Number("9"),
			"prevHead": hash("1"), "head": hash("2"), "root": hash("3"), "createdAt": json.Number("1760000000")}
		if i%2 == 0 {
			h["index"], h["fromSeq"], h["prevHead"] = json.Number("0"), json.Number("0"), hash("0")
		}
		key := pick(rng, slices.Sorted(maps.Keys(h))...)
		switch rng.IntN(8) {
		case 0:
			delete(h, key)
		case 1:
			h["extra"] = 1
		case 2:
			h["prevHead"] = pick(rng, hash("0"), hash("1"))
		default:
			h[key] = change(rng, h[key])
		}
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		cases, want = append(cases, hexLine(text)), append(want, goHeader(text))
		fields[want[i]]++
	}
	t.Log("fields:", fields)
	if len(fields) != 11 { // nine members, an extra one, and none
		t.Errorf("fields refused: %v; the input tests too little", fields)
	}
	agree(t, "JavaScript", cases, want, askJS(t, "header", cases))
	agree(t, "Python", cases, want, askPython(t, "header", cases))
}

func goEvidence(text []byte) bool {
	e, err := flight.ParseEvidence(text)
	return err == nil && e.Verify() == nil
}

// TestEvidence compares whether changed evidence still proves something.
func TestEvidence(t *testing.T) {
	t.Parallel()
	rng := source()
	_, docs := documents(t)
	var cases []string
	var want []bool
	proves := 0
	for i := range 700 {
		text, err := json.Marshal(mutate(rng, docs[i%len(docs)], pick(rng, 0.01, 0.03, 0)))
		if err != nil {
			t.Fatal(err)
		}
		cases, want = append(cases, hexLine(text)), append(want, goEvidence(text))
		if want[i] {
			proves++
		}
	}
	if proves < 50 || proves > 650 {
		t.Errorf("%d of %d still prove something: the input tests too little", proves, len(cases))
	}
	check := func(who string, got []string) {
		for i, g := range got {
			if (g == "ok") != want[i] {
				t.Fatalf("seed %d, case %d: %s\n%s says %s, flight %t", seed, i, readable(cases[i]), who, g, want[i])
			}
		}
	}
	check("JavaScript", askJS(t, "evidence", cases))
	check("Python", askPython(t, "evidence", cases[:150]))
}
