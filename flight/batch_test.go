package flight_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/merkle"
)

func isClaim(err error) bool       { return errors.Is(err, flight.ErrClaim) }
func isUnsupported(err error) bool { return errors.Is(err, flight.ErrUnsupportedClaim) }

func TestHeaderCheck(t *testing.T) {
	k := testKey(t, 7)
	steps := chain(k.Address(), "main", 8, 0)
	big := uint64(canon.MaxInt) + 1
	for _, c := range []struct {
		why    string
		change func(*flight.Header)
		want   string
	}{
		{"as it is", func(*flight.Header) {}, "none"},
		{"stream", func(h *flight.Header) { h.Stream = "a\nb" }, "stream"},
		{"index range", func(h *flight.Header) { h.Index = big }, "index"}, {"fromSeq range", func(h *flight.Header) { h.FromSeq = big }, "fromSeq"},
		{"toSeq range", func(h *flight.Header) { h.ToSeq = ^uint64(0) }, "toSeq"}, {"createdAt range", func(h *flight.Header) { h.CreatedAt = big }, "createdAt"},
		{"backwards", func(h *flight.Header) { h.ToSeq = h.FromSeq - 1 }, "toSeq"},
		{"largest span", func(h *flight.Header) { h.ToSeq = h.FromSeq + flight.MaxSpan - 1 }, "none"}, {"span too large", func(h *flight.Header) { h.ToSeq = h.FromSeq + flight.MaxSpan }, "toSeq"},
		{"index 0 starts late", func(h *flight.Header) { h.Index = 0 }, "fromSeq"}, {"index 0 with prevHead", func(h *flight.Header) { h.Index, h.FromSeq = 0, 0 }, "prevHead"},
		{"index above 0 with zero prevHead", func(h *flight.Header) { h.PrevHead = flight.Hash{} }, "prevHead"},
		{"as many batches as steps before", func(h *flight.Header) { h.Index = h.FromSeq }, "none"}, {"more batches than steps before", func(h *flight.Header) { h.Index = h.FromSeq + 1 }, "fromSeq"},
		{"one step, root of more", func(h *flight.Header) { h.ToSeq = h.FromSeq }, "root"}, {"one step", func(h *flight.Header) { h.ToSeq, h.Root = h.FromSeq, merkle.Leaf(h.Head) }, "none"},
	} {
		h := header(t, 2, steps[3:6])
		c.change(&h)
		if got := field(h.Check()); got != c.want {
			t.Errorf("%s: refused at %q, want %q", c.why, got, c.want)
		}
		if max(h.Index, h.FromSeq, h.ToSeq, h.CreatedAt) > canon.MaxInt {
			continue // no JSON holds these
		}
		_, err := flight.ParseBatch(mustMarshal(t, h.Sign(k, flight.EIP191)))
		if got := field(err); got != c.want {
			t.Errorf("%s: ParseBatch refuses at %q, want %q", c.why, got, c.want)
		}
	}
	if h := (flight.Header{FromSeq: 5, ToSeq: 4}); h.Span() != 0 {
		t.Errorf("a backwards header spans %d steps", h.Span())
	}
}

func TestParseBatchRefusesByField(t *testing.T) {
	v := load(t)
	good := body(v.Batches[0].Header, flight.EIP712, v.Batches[0].Signatures[flight.EIP712])
	for _, c := range []struct{ from, to, want string }{
		{`"header"`, `"Header"`, "header"}, {`"scheme":"eip712"`, `"scheme":"eip1271"`, "scheme"}, {`"scheme":"eip712"`, `"scheme":null`, "scheme"}, {`"scheme":"eip712",`, ``, "scheme"},
		{`"signature":"0x80`, `"signature":"0X80`, "signature"}, {`"signature":"0x80`, `"signature":"0x8`, "signature"}, {`"signature":"0x80`, `"signature":"`, "signature"}, {`"signature":"0x806e`, `"signature":"0x806E`, "signature"},
		{`"index":`, `"index": "0", "Index":`, "Index"}, {`"index": 0`, `"index": "0"`, "index"}, {`"createdAt":`, `"createdat":`, "createdAt"},
		{`"agent": "0x2`, `"agent": "0x`, "agent"}, {`{"header":`, `{"extra":1,"header":`, "extra"}, {`{"header":`, `{"header":[],"x":`, "x"},
	} {
		text := strings.Replace(string(good), c.from, c.to, 1)
		if text == string(good) {
			text = strings.Replace(string(good), strings.ReplaceAll(c.from, ": ", ":"), c.to, 1)
		}
		if text == string(good) {
			t.Fatalf("%q is not in %s", c.from, good)
		}
		if _, err := flight.ParseBatch([]byte(text)); field(err) != c.want {
			t.Errorf("%s -> %s: %v, want a refusal at %q", c.from, c.to, err, c.want)
		}
	}
	for text, want := range map[string]canon.Code{
		string(good) + "x": canon.TrailingData, string(good[:40]): canon.Syntax, `{"header":{},"header":{}}`: canon.DuplicateKey, "{\"\xff\":1}": canon.InvalidUTF8,
		`{"header":1e400}`: canon.NonFinite, `{"header":9007199254740993}`: canon.UnsafeInteger, strings.Repeat("[", 9): canon.TooDeep, strings.Repeat(" ", flight.MaxBatchBytes) + "1": canon.TooLarge,
	} {
		_, err := flight.ParseBatch([]byte(text))
		var fe *flight.FieldError
		if !errors.As(err, &fe) || fe.Code != want {
			t.Errorf("ParseBatch(%.40q): %v, want code %s", text, err, want)
		}
	}
	padded := append(bytes.Repeat([]byte(" "), flight.MaxBatchBytes-len(good)), good...)
	if _, err := flight.ParseBatch(padded); err != nil {
		t.Errorf("a body of exactly 16 KiB: %v", err)
	}
}

func TestBatchRoundTrips(t *testing.T) {
	k := testKey(t, 7)
	for _, stream := range []string{"main", `a<b>&"c"`, "😀é"} {
		for _, scheme := range []flight.Scheme{flight.EIP712, flight.EIP191} {
			h := header(t, 0, chain(k.Address(), stream, 3, 0))
			b := h.Sign(k, scheme)
			back, err := flight.ParseBatch(mustMarshal(t, b))
			if err != nil || back != b || back.Verify() != nil || back.ID() != b.ID() {
				t.Errorf("%q, %s: comes back as %v, %v", stream, scheme, back, err)
			}
		}
	}
}

// Every field is under both digests, and the two never agree.
func TestEveryHeaderFieldIsSigned(t *testing.T) {
	k := testKey(t, 7)
	h := header(t, 2, chain(k.Address(), "main", 6, 0)[3:])
	for name, change := range map[string]func(*flight.Header){
		"agent": func(h *flight.Header) { h.Agent[19] ^= 1 }, "stream": func(h *flight.Header) { h.Stream += "x" }, "index": func(h *flight.Header) { h.Index++ },
		"fromSeq": func(h *flight.Header) { h.FromSeq++ }, "toSeq": func(h *flight.Header) { h.ToSeq++ }, "prevHead": func(h *flight.Header) { h.PrevHead[0] ^= 1 },
		"head": func(h *flight.Header) { h.Head[0] ^= 1 }, "root": func(h *flight.Header) { h.Root[0] ^= 1 }, "createdAt": func(h *flight.Header) { h.CreatedAt++ },
	} {
		for _, scheme := range []flight.Scheme{flight.EIP712, flight.EIP191} {
			b := h.Sign(k, scheme)
			if err := b.Verify(); err != nil {
				t.Fatal(err)
			}
			change(&b.Header)
			if err := b.Verify(); !errors.Is(err, flight.ErrSignature) {
				t.Errorf("%s under %s: %v, want %v", name, scheme, err, flight.ErrSignature)
			}
		}
		other := h
		change(&other)
		if other.SameHistory(h) != (name == "createdAt") {
			t.Errorf("SameHistory after a change of %s is %t", name, other.SameHistory(h))
		}
	}
	b := h.Sign(k, flight.EIP712)
	for _, scheme := range []flight.Scheme{flight.EIP191, "", "EIP712"} {
		b.Scheme = scheme
		if err := b.Verify(); !errors.Is(err, flight.ErrSignature) {
			t.Errorf("an eip712 signature as %q: %v", scheme, err)
		}
	}
	if h.IDUnder(1) == h.ID() || h.IDUnder(1) == h.IDUnder(2) {
		t.Error("a domain with a chain id gives the digest of another")
	}
}

func TestSignatureForms(t *testing.T) {
	k := testKey(t, 7)
	digest := flight.Keccak256([]byte("anything"))
	for i := range 20 { // both recovery ids
		digest[0] = byte(i)
		kept := k.Sign(digest)
		compact := bytes.Clone(kept[:64])
		compact[32] |= (kept[64] - 27) << 7
		zeroOne := bytes.Clone(kept[:])
		zeroOne[64] -= 27
		for _, raw := range [][]byte{kept[:], zeroOne, compact} {
			s, err := flight.ParseSignature(raw)
			signer, rerr := s.Recover(digest)
			if err != nil || s != kept || rerr != nil || signer != k.Address() {
				t.Errorf("%x: %s, %v, signer %s, %v", raw, s, err, signer, rerr)
			}
		}
		for v := range 256 {
			raw := bytes.Clone(kept[:])
			raw[64] = byte(v)
			if _, err := flight.ParseSignature(raw); (err == nil) != (v <= 1 || v == 27 || v == 28) {
				t.Errorf("v = %d: %v", v, err)
			}
		}
		for n := range 70 {
			if _, err := flight.ParseSignature(make([]byte, n)); !errors.Is(err, flight.ErrSignatureForm) {
				t.Errorf("%d zero bytes: %v", n, err)
			}
		}
	}
}

func TestSignatureScalars(t *testing.T) {
	const (
		order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
		half  = "7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0" // the largest low s
		above = "7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a1"
		last  = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140"
		one   = "0000000000000000000000000000000000000000000000000000000000000001"
		zero  = "0000000000000000000000000000000000000000000000000000000000000000"
	)
	for _, c := range []struct {
		r, s string
		ok   bool
	}{
		{one, one, true}, {last, half, true}, {one, half, true}, {one, above, false}, {one, last, false}, {one, order, false},
		{zero, one, false}, {one, zero, false}, {order, one, false}, {strings.Repeat("f", 64), one, false}, {one, strings.Repeat("f", 64), false},
	} {
		for _, v := range []string{"1b", "00"} {
			raw, err := flight.ParseHex("0x" + c.r + c.s + v)
			if err != nil {
				t.Fatal(err)
			}
			var s flight.Signature
			_, perr := flight.ParseSignature(raw)
			if uerr := json.Unmarshal([]byte(`"0x`+c.r+c.s+v+`"`), &s); (perr == nil) != c.ok || (uerr == nil) != c.ok {
				t.Errorf("r %s s %s: %v, %v, want ok %t", c.r, c.s, perr, uerr, c.ok)
			}
			copy(s[:], raw)
			if _, err := s.Recover(flight.Hash{1}); !c.ok && !errors.Is(err, flight.ErrSignature) {
				t.Errorf("r %s s %s, filled by hand: %v", c.r, c.s, err)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	for _, raw := range [][]byte{nil, make([]byte, 32), make([]byte, 31), bytes.Repeat([]byte{255}, 32)} {
		if _, err := flight.KeyFromBytes(raw); !errors.Is(err, flight.ErrKey) {
			t.Errorf("%x: %v, want ErrKey", raw, err)
		}
	}
	k, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	again, err := flight.KeyFromBytes(k.Bytes())
	if err != nil || again.Address() != k.Address() || again.Sign(flight.Hash{1}) != k.Sign(flight.Hash{1}) {
		t.Errorf("the key comes back as %v, %v", again, err)
	}
	// Known from every Ethereum tool: the address of key 1.
	if got := testKey(t, 1).Address().String(); got != "0x7e5f4552091a69125d5dfcb7b8c2659029395bdf" {
		t.Errorf("the address of key 1 is %s", got)
	}
}

func TestTextDigestCountsBytes(t *testing.T) {
	if got, want := flight.TextDigest("é"), flight.Keccak256([]byte("\x19Ethereum Signed Message:\n2é")); got != want {
		t.Errorf("TextDigest = %s, want %s", got, want)
	}
}

func TestHex(t *testing.T) {
	for _, bad := range []string{"", "0", "0x1", "0X12", "12", "0xAB", "0xg0", "x012", "0x 1"} {
		if _, err := flight.ParseHex(bad); !errors.Is(err, flight.ErrHex) {
			t.Errorf("ParseHex(%q): %v", bad, err)
		}
	}
	var doc struct {
		H flight.Hash
		A flight.Address
	}
	doc.H[0], doc.A[19] = 0xab, 0xcd
	if err := json.Unmarshal(mustMarshal(t, doc), &doc); err != nil || doc.H[0] != 0xab || doc.A[19] != 0xcd {
		t.Errorf("comes back as %v, %v", doc, err)
	}
	if err := json.Unmarshal([]byte(`{"H":"0xAB"}`), &doc); !errors.Is(err, flight.ErrHex) {
		t.Errorf("upper-case hex in JSON: %v", err)
	}
}
