package flight_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"unicode"

	"karatum/flight"
	"karatum/flight/canon"
)

const (
	someHash    = "0x2193076a8bfdbb8d32b4922d21cad0878286ce9ac9cf105672aaf1fef1be8a60"
	zeroHash    = "0x0000000000000000000000000000000000000000000000000000000000000000"
	someAddress = "0x23e77df71fbbdfbdb36c1ea3ae7a894c32393bc4"
)

// stepDoc is a valid step, every key present, with the changes made to it; nil
// deletes a key.
func stepDoc(changes map[string]any) map[string]any {
	doc := map[string]any{
		"v": "karatum.fr.v1", "agent": someAddress, "stream": "main", "seq": 1, "prev": someHash, "at": 1760000000000, "kind": "tx", "status": "ok",
		"name": "send", "prompt": someHash, "args": someHash, "result": someHash, "claim": someHash, "chainId": 8453, "txHash": someHash,
	}
	maps.Copy(doc, changes)
	for k, v := range changes {
		if v == nil {
			delete(doc, k)
		}
	}
	return doc
}

func TestParseStep(t *testing.T) {
	null := json.RawMessage("null")
	for _, c := range []struct {
		why  string
		doc  map[string]any
		want string
	}{
		{"all keys", nil, "none"},
		{"only the required ones and a commitment", map[string]any{"name": nil, "prompt": nil, "result": nil, "claim": nil, "chainId": nil, "txHash": nil}, "none"},
		{"first step", map[string]any{"seq": 0, "prev": zeroHash}, "none"},
		{"integers by value", map[string]any{"seq": json.RawMessage("1.0"), "at": json.RawMessage("1e3"), "chainId": json.RawMessage("-0")}, "none"},
		{"largest integers", map[string]any{"seq": uint64(canon.MaxInt), "at": uint64(canon.MaxInt), "chainId": uint64(canon.MaxInt)}, "none"},
		{"longest names", map[string]any{"stream": strings.Repeat("é", 64), "name": strings.Repeat("😀", 128)}, "none"},
		{"name with a lone surrogate", map[string]any{"name": json.RawMessage(`"\ud800"`)}, "none"},

		{"another key", map[string]any{"extra": 1}, "extra"}, {"upper-case key", map[string]any{"Agent": someAddress}, "Agent"},
		{"version", map[string]any{"v": "karatum.fr.v2"}, "v"}, {"version missing", map[string]any{"v": nil}, "v"}, {"version as number", map[string]any{"v": 1}, "v"},
		{"upper-case agent", map[string]any{"agent": "0x23E77df71fbbdfbdb36c1ea3ae7a894c32393bc4"}, "agent"}, {"0X", map[string]any{"agent": "0X23e77df71fbbdfbdb36c1ea3ae7a894c32393bc4"}, "agent"},
		{"short agent", map[string]any{"agent": "0x23e7"}, "agent"}, {"agent without 0x", map[string]any{"agent": someAddress[2:]}, "agent"}, {"long agent", map[string]any{"agent": someAddress + "00"}, "agent"},
		{"upper-case hash", map[string]any{"args": strings.ToUpper(someHash)}, "args"}, {"hash with space", map[string]any{"args": " " + someHash}, "args"}, {"null hash", map[string]any{"args": null}, "args"},
		{"null name", map[string]any{"name": null}, "name"}, {"empty name", map[string]any{"name": ""}, "name"}, {"long name", map[string]any{"name": strings.Repeat("a", 129)}, "name"}, {"name as number", map[string]any{"name": 1}, "name"},
		{"seq as string", map[string]any{"seq": "1"}, "seq"}, {"negative seq", map[string]any{"seq": -1}, "seq"}, {"fractional seq", map[string]any{"seq": 1.5}, "seq"}, {"seq of 2^53", map[string]any{"seq": uint64(1) << 53}, "seq"}, {"seq missing", map[string]any{"seq": nil}, "seq"},
		{"at", map[string]any{"at": true}, "at"}, {"kind", map[string]any{"kind": "Tool"}, "kind"}, {"status", map[string]any{"status": "failed"}, "status"},
		{"prev at seq 0", map[string]any{"seq": 0}, "prev"}, {"stream", map[string]any{"stream": ""}, "stream"},
		{"chainId alone", map[string]any{"txHash": nil}, "txHash"}, {"txHash alone", map[string]any{"chainId": nil}, "txHash"}, {"null chainId", map[string]any{"chainId": null}, "chainId"},
		{"no commitment", map[string]any{"prompt": nil, "args": nil, "result": nil, "claim": nil}, "args"},
	} {
		v := mustParse(t, string(mustMarshal(t, stepDoc(c.doc))))
		s, err := flight.ParseStep(v)
		if got := field(err); got != c.want {
			t.Errorf("%s: refused at %q (%v), want %q", c.why, got, err, c.want)
		}
		if want := string(canon.Append(nil, v)); err == nil && string(s.Canonical()) != want {
			t.Errorf("%s: Canonical = %s, want %s", c.why, s.Canonical(), want)
		}
	}
	for _, text := range []string{`null`, `[]`, `"step"`, `{}`} {
		if _, err := flight.ParseStep(mustParse(t, text)); err == nil {
			t.Errorf("%s was taken for a step", text)
		}
	}
}

func TestCheckRefusesStepsBuiltInGo(t *testing.T) {
	big := uint64(canon.MaxInt) + 1
	h := flight.Hash{1}
	for want, change := range map[string]func(*flight.Step){
		"seq": func(s *flight.Step) { s.Seq = big }, "at": func(s *flight.Step) { s.At = big }, "chainId": func(s *flight.Step) { s.ChainID, s.TxHash = &big, &h },
		"name": func(s *flight.Step) { s.Name = "\xff" }, "stream": func(s *flight.Step) { s.Stream = "a\xef" }, "prev": func(s *flight.Step) { s.Prev = h }, "args": func(s *flight.Step) { s.Args = nil },
	} {
		s := chain(flight.Address{}, "main", 1, 0)[0]
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		change(&s)
		if got := field(s.Check()); got != want {
			t.Errorf("refused at %q, want %q", got, want)
		}
	}
}

func TestStepValueRoundTrips(t *testing.T) {
	for _, s := range chain(flight.Address{9}, "a<b>&\u00a0", 3, 0) {
		back, err := flight.ParseStep(s.Value())
		if err != nil || back.Hash() != s.Hash() {
			t.Errorf("step %d comes back as %v, %v", s.Seq, back, err)
		}
		text := mustMarshal(t, s)
		if parsed := mustParse(t, string(text)); string(canon.Append(nil, parsed)) != string(s.Canonical()) {
			t.Errorf("json.Marshal writes %s, want %s", text, s.Canonical())
		}
	}
	if h := (&flight.Step{}).Commitment("name"); h != nil {
		t.Errorf("name is a commitment: %s", h)
	}
}

func TestStreamNames(t *testing.T) {
	if unicode.Version != "15.0.0" {
		t.Errorf("package unicode is of edition %s; the protocol's is 15.0, so the tables of CheckStream must be pinned", unicode.Version)
	}
	for _, ok := range []string{"a", "...", ".a", "a b", "ä", "日本", "😀", "\u00a0", "\u3000x", "a\\b", "%2f", "\ufffd", "\U000e0100", "\u0378", "\ue000", strings.Repeat("x", 64), strings.Repeat("😀", 64)} {
		if err := flight.CheckStream(ok); err != nil {
			t.Errorf("CheckStream(%q): %v", ok, err)
		}
	}
	for _, bad := range []string{
		"", ".", "..", "/", "a/b", " a", "a ", " ", strings.Repeat("x", 65), strings.Repeat("😀", 65),
		"a\nindex: 5", "a\x00", "a\x7f", "a\u0085b", "a\u00adb", "\u200b", "a\u200d", "\u202e", "\u2028", "a\u2029", "\ufeff", "\u0600", "\U000e0001", "\U0001d173", "\U00013430", "\U000110bd",
		"\xff", "a\xef", "\xed\xa0\x80", "\xed\xb0\x80",
	} {
		if got := field(flight.CheckStream(bad)); got != "stream" {
			t.Errorf("CheckStream(%q) is refused at %q, want stream", bad, got)
		}
	}
	// Every code point, by the rule itself.
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xd800 && r < 0xe000 {
			continue
		}
		bad := r == '/' || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
		if err := flight.CheckStream("a" + string(r) + "b"); (err != nil) != bad {
			t.Errorf("U+%04X: %v", r, err)
		}
	}
}

func TestCommit(t *testing.T) {
	salt := flight.Hash{1}
	c, err := flight.CommitValue(mustParse(t, `{"b":1.0,"a":[ ]}`), salt)
	want := flight.Keccak256([]byte("karatum.fr.v1.commit"), salt[:], []byte(`{"a":[],"b":1}`))
	if err != nil || c != want || flight.Commit([]byte(`{"a":[],"b":1}`), salt) != want {
		t.Errorf("CommitValue = %s, %v, want %s", c, err, want)
	}
	for _, other := range []string{`{"a":[],"b":2}`, `{"a":[],"b":"1"}`, `[]`, `null`} {
		if d, err := flight.CommitValue(mustParse(t, other), salt); err != nil || d == c {
			t.Errorf("%s commits to the same or %v", other, err)
		}
	}
	for bit := range 256 {
		s := salt
		s[bit/8] ^= 1 << (bit % 8)
		if d, err := flight.CommitValue(mustParse(t, `{"a":[],"b":1}`), s); err != nil || d == c {
			t.Errorf("bit %d of the salt does not matter, or %v", bit, err)
		}
	}
	deep, err := canon.Parse([]byte(strings.Repeat("[", 65)+strings.Repeat("]", 65)), 80)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flight.CommitValue(deep, salt); err == nil {
		t.Error("a value 65 deep was committed to")
	}
}

func TestClaims(t *testing.T) {
	const to, token = someAddress, "0xc96cd0b115fd7738895c409f041f2a2fe9f18b2e"
	most := "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	for _, ok := range []string{
		`{"kind":"tx.success"}`, `{"kind":"native.transfer","to":"` + to + `","value":"0"}`, `{"kind":"native.transfer","to":"` + to + `","value":"` + most + `"}`,
		`{"amount":"25","kind":"erc20.transfer","to":"` + to + `","token":"` + token + `"}`,
	} {
		c, err := flight.ParseClaim(mustParse(t, ok))
		if err != nil || string(canon.Append(nil, c.Value())) != ok {
			t.Errorf("%s: %v, %v", ok, c, err)
		}
	}
	for _, bad := range []string{
		`null`, `{}`, `[]`, `"tx.success"`, `{"kind":null}`, `{"kind":1}`, `{"kind":"tx.success","to":"` + to + `"}`, `{"kind":"native.transfer"}`,
		`{"kind":"native.transfer","to":"` + strings.ToUpper(to) + `","value":"1"}`, `{"kind":"native.transfer","to":"` + to + `","value":1}`, `{"kind":"native.transfer","to":"` + to + `","amount":"1"}`,
		`{"kind":"native.transfer","to":"` + to + `","value":"01"}`, `{"kind":"native.transfer","to":"` + to + `","value":"-1"}`, `{"kind":"native.transfer","to":"` + to + `","value":"+1"}`, `{"kind":"native.transfer","to":"` + to + `","value":""}`,
		`{"kind":"native.transfer","to":"` + to + `","value":"1.0"}`, `{"kind":"native.transfer","to":"` + to + `","value":"1\n"}`, `{"kind":"native.transfer","to":"` + to + `","value":"0x1"}`, `{"kind":"native.transfer","to":"` + to + `","value":"1e3"}`, `{"kind":"native.transfer","to":"` + to + `","value":"١"}`,
		`{"kind":"native.transfer","to":"` + to + `","value":"115792089237316195423570985008687907853269984665640564039457584007913129639936"}`, `{"kind":"native.transfer","to":"` + to + `","value":"` + most + `0"}`, `{"kind":"native.transfer","to":"` + to + `","value":"1","memo":"x"}`,
		`{"amount":"25","kind":"erc20.transfer","to":"` + to + `"}`, `{"amount":"25","kind":"erc20.transfer","to":"` + to + `","token":null}`,
	} {
		if _, err := flight.ParseClaim(mustParse(t, bad)); !isClaim(err) {
			t.Errorf("%s: %v, want ErrClaim", bad, err)
		}
	}
	if c, err := flight.ParseClaim(mustParse(t, `{"kind":"nft.mint","id":7}`)); !isUnsupported(err) || c.Kind != "nft.mint" {
		t.Errorf("an unknown kind: %v, %v", c, err)
	}
}
