package app

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/flight"
)

// A record is an agent with a history that has everything in it: two streams, a gap,
// both schemes, anchored batches and waiting ones, claims, published reveals, and a
// second history of one index.
type record struct {
	*rig
	agent flight.Address
	alpha *author
}

func newRecord(t *testing.T) *record {
	t.Helper()
	at := time.Now()
	r := newRig(t, func(_ *Config, d *Deps) { d.Now = func() time.Time { return at } })
	alpha, beta, other := newAuthor(t, "alpha"), newAuthor(t, "beta"), newAuthor(t, "alpha")
	beta.key = alpha.key
	payee := flight.Address{0xaa}
	r.token(alpha, "faucet", common.Address(alpha.key.Address()), big.NewInt(100))
	paid := r.token(alpha, "transfer", common.Address(payee), big.NewInt(25))
	for i := range 6 {
		alpha.step(t, usdc(payee, 25), 31337, &paid)
		b := alpha.batch(t, []flight.Scheme{flight.EIP712, flight.EIP191}[i%2])
		if i == 2 {
			continue // never delivered
		}
		if i == 5 {
			if _, err := r.app.AnchorNow(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r.mustIngest(b)
		if i%2 == 0 {
			r.mustDisclose(alpha.disclose(t, b, b.Header.ToSeq, "claim", "args"), i == 4)
		}
		other.fill(t, 3)
		r.mustIngest(other.batch(t, flight.EIP712))
		beta.fill(t, 4)
		r.mustIngest(beta.batch(t, flight.EIP712))
	}
	fork := beta.header(t, 4, 6, 1).Sign(beta.key, flight.EIP712)
	_, err := r.ingest(fork)
	wantCode(t, err, "EQUIVOCATION")
	return &record{rig: r, agent: alpha.key.Address(), alpha: alpha}
}

func (r *rig) mustDisclose(body []byte, publish bool) {
	r.t.Helper()
	if _, err := r.app.Disclose(r.t.Context(), body, publish); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) export(agent flight.Address) []byte {
	r.t.Helper()
	var b bytes.Buffer
	e, err := r.app.Export(r.t.Context(), agent)
	if err == nil {
		err = e.Write(r.t.Context(), &b)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return b.Bytes()
}

// A packed is a member taken out of an archive.
type packed struct {
	name string
	body []byte
}

// unpack reads an archive with the standard library's readers, not ours.
func unpack(t testing.TB, archive []byte) (members []packed) {
	t.Helper()
	gz, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return members
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, packed{h.Name, body})
	}
}

// raw is the tar of the members, each under the only header that is taken.
func raw(t testing.TB, members []packed) []byte {
	t.Helper()
	var b []byte
	for _, m := range members {
		head, err := tarHeader(m.name, uint64(len(m.body)))
		if err != nil {
			t.Fatal(err)
		}
		b = append(append(append(b, head...), m.body...), make([]byte, padding(uint64(len(m.body))))...)
	}
	return append(b, make([]byte, 2*tarBlock)...)
}

func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	gz := gzip.NewWriter(&out)
	if _, err := gz.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func verifyBytes(t testing.TB, archive []byte, o VerifyOptions) *Verification {
	t.Helper()
	return VerifyArchive(t.Context(), bytes.NewReader(archive), o)
}

func TestExport(t *testing.T) {
	r := newRecord(t)
	archive := r.export(r.agent)
	v := verifyBytes(t, archive, VerifyOptions{})
	want := ArchiveCounts{Streams: 2, Batches: 10, Missing: 1, Anchored: 8, Disclosures: 2, Evidence: 1}
	if !v.OK || v.Archive.Counts != want || v.Archive.Agent != r.agent || v.Archive.Epochs != 1 || !strings.Contains(v.Verdict, "offline checks passed") {
		t.Errorf("%s\n%+v; want %+v", v.Verdict, v.Archive, want)
	}
	attester := r.keys.Anchor.Address()
	for _, c := range []struct {
		name    string
		opts    VerifyOptions
		ok      bool
		verdict string
	}{
		{"pinned", VerifyOptions{Chains: []VerifyChain{r.client}, Attester: &attester}, true, "all "},
		{"unpinned", VerifyOptions{Chains: []VerifyChain{r.client}}, false, "unpinned attester"},
		{"another attester", VerifyOptions{Chains: []VerifyChain{r.client}, Attester: &r.agent}, false, "first ATTESTER"},
		{"another chain", VerifyOptions{Chains: []VerifyChain{&toldChain{id: 1}}, Attester: &attester}, false, "anchors were not checked against chain 31337"},
		{"a chain that knows nothing", VerifyOptions{Chains: []VerifyChain{&toldChain{id: 31337}}, Attester: &attester}, false, "first ANCHOR_TX"},
	} {
		if v := verifyBytes(t, archive, c.opts); v.OK != c.ok || !strings.Contains(v.Verdict, c.verdict) {
			t.Errorf("%s: %v %q; want %v, %q", c.name, v.OK, v.Verdict, c.ok, c.verdict)
		}
	}
	if again := r.export(r.agent); !bytes.Equal(again, archive) {
		t.Error("a second export of the same record is of other bytes")
	}
	_, err := r.app.Export(t.Context(), flight.Address{1})
	wantCode(t, err, "UNKNOWN_AGENT")
}

// Every line is a document by itself, and what only the node says is called so.
func TestExportLinesAreDocuments(t *testing.T) {
	r := newRecord(t)
	lines := 0
	for _, m := range unpack(t, r.export(r.agent)) {
		if m.name == manifestName {
			continue
		}
		for line := range bytes.Lines(m.body) {
			lines++
			v := Verify(t.Context(), [][]byte{line}, VerifyOptions{})
			if !v.OK {
				t.Errorf("%s: %s in %s", m.name, v.Verdict, line)
			}
			var out strings.Builder
			if err := v.Print(&out, false); err != nil {
				t.Fatal(err)
			}
			if says := strings.Contains(out.String(), "only the node's word: nodeClaims"); says != strings.HasPrefix(m.name, membersDisclosures) {
				t.Errorf("%s: the node's word is named: %v\n%s", m.name, says, &out)
			}
		}
	}
	if lines != 13 {
		t.Errorf("%d lines, want 13", lines)
	}
}

// What comes in while an export runs is not in it, and does not break it.
func TestExportIsOfOneMoment(t *testing.T) {
	r := newRecord(t)
	e, err := r.app.Export(t.Context(), r.agent)
	if err != nil {
		t.Fatal(err)
	}
	r.alpha.fill(t, 2)
	b := r.alpha.batch(t, flight.EIP712)
	r.mustIngest(b)
	r.mustDisclose(r.alpha.disclose(t, b, b.Header.ToSeq, "args"), true)
	late := newAuthor(t, "aaa")
	late.key = r.alpha.key
	late.fill(t, 1)
	r.mustIngest(late.batch(t, flight.EIP712))
	if _, err := r.app.AnchorNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := e.Write(t.Context(), &buf); err != nil {
		t.Fatal(err)
	}
	v := verifyBytes(t, buf.Bytes(), VerifyOptions{})
	if !v.OK || v.Archive.Counts.Batches != 10 || v.Archive.Counts.Streams != 2 || v.Archive.Counts.Disclosures != 2 {
		t.Errorf("%s: %+v; want the 10 batches and 2 disclosures of the beginning", v.Verdict, v.Archive.Counts)
	}
}

// refit gives the manifest the sizes, hashes and counts that the members have, as a
// forger would.
func refit(t *testing.T, members []packed, counts func(*ArchiveCounts)) []packed {
	t.Helper()
	last := &members[len(members)-1]
	var m ArchiveManifest
	if err := json.Unmarshal(last.body, &m); err != nil {
		t.Fatal(err)
	}
	m.Members = nil
	for _, p := range members[:len(members)-1] {
		m.Members = append(m.Members, ArchiveMember{p.name, uint64(len(p.body)), uint64(bytes.Count(p.body, []byte{'\n'})), sha256.Sum256(p.body)})
	}
	if counts != nil {
		counts(&m.Counts)
	}
	last.body = append(encode(t, &m), '\n')
	return members
}

func TestArchiveTampered(t *testing.T) {
	r := newRecord(t)
	archive := r.export(r.agent)
	stranger := newAuthor(t, "alpha")
	stranger.fill(t, 1)
	forged := stranger.batch(t, flight.EIP712)
	// swap replaces in a line of a member and keeps the length unless told.
	swap := func(member, line int, old, with string) func(*testing.T, []packed) {
		return func(t *testing.T, ms []packed) {
			lines := bytes.SplitAfter(ms[member].body, []byte{'\n'})
			changed := bytes.Replace(lines[line], []byte(old), []byte(with), 1)
			if bytes.Equal(changed, lines[line]) {
				t.Fatalf("line %d of %s has no %q: %s", line, ms[member].name, old, lines[line])
			}
			lines[line] = changed
			ms[member].body = bytes.Join(lines, nil)
		}
	}
	flip := func(member, line int, after string) func(*testing.T, []packed) {
		return func(t *testing.T, ms []packed) {
			lines := bytes.SplitAfter(ms[member].body, []byte{'\n'})
			i := bytes.Index(lines[line], []byte(after))
			if i < 0 {
				t.Fatalf("line %d of %s has no %q", line, ms[member].name, after)
			}
			i += len(after)
			lines[line][i] = "0123456789abcdef1"[strings.IndexByte("0123456789abcdef", lines[line][i])+1]
		}
	}
	move := func(member int, order ...int) func(*testing.T, []packed) {
		return func(_ *testing.T, ms []packed) {
			lines := bytes.SplitAfter(ms[member].body, []byte{'\n'})
			var out []byte
			for _, i := range order {
				out = append(out, lines[i]...)
			}
			ms[member].body = out
		}
	}
	none := func(*ArchiveCounts) {}
	for _, c := range []struct {
		name   string
		edit   func(*testing.T, []packed)
		counts func(*ArchiveCounts) // set: the manifest is made to fit
		code   flight.CheckCode
		place  string
	}{
		{"an altered member, the manifest left", flip(0, 0, `"signature":"0x`), nil, CheckManifest, "batches/000001.ndjson"},
		{"a batch's signature", flip(0, 1, `"signature":"0x`), none, CheckBatch, "batches/000001.ndjson line 2"},
		{"a batch's date", swap(0, 1, `"createdAt":1`, `"createdAt":2`), none, CheckBatch, "batches/000001.ndjson line 2"},
		{"a receipt's promise", swap(0, 2, `"anchorBy":1`, `"anchorBy":2`), none, CheckReceipt, "batches/000001.ndjson line 3"},
		{"a receipt of another batch", func(t *testing.T, ms []packed) {
			lines := bytes.SplitAfter(ms[0].body, []byte{'\n'})
			var a, b map[string]json.RawMessage
			if err := errors.Join(json.Unmarshal(lines[0], &a), json.Unmarshal(lines[1], &b)); err != nil {
				t.Fatal(err)
			}
			a["receipt"] = b["receipt"]
			lines[0] = append(encode(t, a), '\n')
			ms[0].body = bytes.Join(lines, nil)
		}, none, CheckSameBatch, "batches/000001.ndjson line 1"},
		{"an epoch's root", flip(0, 0, `"epoch":{"root":"0x`), none, CheckEpochProof, "batches/000001.ndjson line 1"},
		{"a path", flip(0, 0, `"proof":{"index":0,"size":12,"siblings":["0x`), none, CheckEpochProof, "batches/000001.ndjson line 1"},
		{"a batch left out behind another", move(0, 0, 2, 3, 4, 5, 6, 7, 8, 9), func(c *ArchiveCounts) { c.Batches--; c.Anchored-- }, CheckCounts, manifestName},
		{"a batch twice", move(0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9), func(c *ArchiveCounts) { c.Batches++; c.Anchored++ }, CheckRecord, "batches/000001.ndjson line 3"},
		{"batches in another order", move(0, 1, 0, 2, 3, 4, 5, 6, 7, 8, 9), none, CheckRecord, "batches/000001.ndjson line 2"},
		{"streams in another order", move(0, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4), none, CheckRecord, "batches/000001.ndjson line 6"},
		{"a batch of a stranger", func(t *testing.T, ms []packed) {
			lines := bytes.SplitAfter(ms[0].body, []byte{'\n'})
			var a map[string]json.RawMessage
			if err := json.Unmarshal(lines[4], &a); err != nil {
				t.Fatal(err)
			}
			a["batch"] = encode(t, forged)
			lines[4] = append(encode(t, a), '\n')
			ms[0].body = bytes.Join(lines, nil)
		}, none, CheckRecord, "batches/000001.ndjson line 5"},
		{"a history that does not link", func(t *testing.T, ms []packed) {
			// Line 7 is batch 1 of beta; the agent itself signs another one.
			h := flight.Header{Agent: r.agent, Stream: "beta", Index: 1, FromSeq: 4, ToSeq: 7, PrevHead: flight.Hash{1}, Head: flight.Hash{2}, Root: flight.Hash{3}, CreatedAt: 5}
			lines := bytes.SplitAfter(ms[0].body, []byte{'\n'})
			var a map[string]json.RawMessage
			if err := json.Unmarshal(lines[6], &a); err != nil {
				t.Fatal(err)
			}
			a["batch"] = encode(t, h.Sign(r.alpha.key, flight.EIP712))
			lines[6] = append(encode(t, a), '\n')
			ms[0].body = bytes.Join(lines, nil)
		}, none, CheckLinks, "batches/000001.ndjson line 7"},
		{"an unknown key", swap(0, 3, `{"batch"`, `{"x":1,"batch"`), none, CheckForm, "batches/000001.ndjson line 4"},
		{"a line without a receipt", swap(0, 3, `"receipt":`, `"receipt2":`), none, CheckForm, "batches/000001.ndjson line 4"},
		{"a key twice", swap(0, 3, `{"batch":`, `{"batch":1,"batch":`), none, CheckForm, "batches/000001.ndjson line 4"},
		{"an empty line", swap(0, 3, "\n", "\n\n"), none, CheckForm, "batches/000001.ndjson line 5"},
		{"a last line without an end", swap(0, 9, "\n", ""), none, CheckForm, "batches/000001.ndjson"},
		{"an opened amount", swap(1, 0, `"amount":"25"`, `"amount":"26"`), none, flight.CheckCommitment, "disclosures/000001.ndjson line 1"},
		{"a step", swap(1, 0, `"status":"ok"`, `"status":"error"`), none, flight.CheckProof, "disclosures/000001.ndjson line 1"},
		{"a disclosure twice", move(1, 0, 0, 1), func(c *ArchiveCounts) { c.Disclosures++ }, CheckRecord, "disclosures/000001.ndjson line 2"},
		{"a disclosure of a batch that is left out", move(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), func(c *ArchiveCounts) { c.Batches--; c.Anchored--; c.Missing++ }, CheckRecord, "disclosures/000001.ndjson line 1"},
		{"a claim of the node that is no object", swap(1, 1, `"nodeClaims":{`, `"nodeClaims":1,"x":{`), none, CheckForm, "disclosures/000001.ndjson line 2"},
		{"a statement of evidence", swap(2, 0, `"toSeq":6`, `"toSeq":5`), none, CheckStatementB, "evidence/000001.ndjson line 1"},
		{"the reason of evidence", swap(2, 0, "SAME_INDEX", "ORDER"), none, CheckContradiction, "evidence/000001.ndjson line 1"},
		{"evidence left out", move(2, 0, 0), none, CheckCounts, manifestName},
		{"the manifest's agent", flip(3, 0, `"agent":"0x`), nil, CheckRecord, manifestName},
		{"the manifest's counts", swap(3, 0, `"batches":10`, `"batches":11`), nil, CheckCounts, manifestName},
		{"the manifest's chains", swap(3, 0, `"anchors":[31337]`, `"anchors":[1]`), nil, CheckCounts, manifestName},
		{"the manifest's format", swap(3, 0, `karatum.export.v1`, `karatum.export.v9`), nil, CheckManifest, manifestName},
		{"the manifest's members", swap(3, 0, `"lines":10`, `"lines":11`), nil, CheckManifest, "batches/000001.ndjson"},
		{"an unknown key of the manifest", swap(3, 0, `{"format"`, `{"x":1,"format"`), nil, CheckManifest, manifestName},
		{"a manifest that is no JSON", swap(3, 0, `{"format"`, `{format"`), nil, CheckManifest, manifestName},
	} {
		t.Run(c.name, func(t *testing.T) {
			ms := unpack(t, archive)
			c.edit(t, ms)
			if c.counts != nil {
				ms = refit(t, ms, c.counts)
			}
			v := verifyBytes(t, zipped(t, raw(t, ms)), VerifyOptions{})
			wantFailure(t, v, c.code, c.place)
		})
	}
}

// wantFailure fails unless the verification failed with the check at the place.
func wantFailure(t *testing.T, v *Verification, code flight.CheckCode, place string) {
	t.Helper()
	if v.OK || !strings.HasPrefix(v.Verdict, "FAILED") {
		t.Fatalf("not refused: %s", v.Verdict)
	}
	for _, f := range v.Archive.Failures {
		if f.Code == code && f.Place == place {
			return
		}
	}
	t.Errorf("no failure %s at %q in %+v", code, place, v.Archive.Failures)
}

// With a chain, a verdict that the node made up is found, and so is a claim that
// the chain contradicts.
func TestArchiveNodeClaims(t *testing.T) {
	r := newRecord(t)
	attester := r.keys.Anchor.Address()
	ms := unpack(t, r.export(r.agent))
	ms[1].body = bytes.Replace(ms[1].body, []byte(`"state":"confirmed"`), []byte(`"state":"contradicted"`), 1)
	v := verifyBytes(t, zipped(t, raw(t, refit(t, ms, nil))), VerifyOptions{Chains: []VerifyChain{r.client}, Attester: &attester})
	wantFailure(t, v, CheckNodeClaim, "disclosures/000001.ndjson line 1")

	lie := newAuthor(t, "alpha")
	sent := r.transact(lie, common.Address{1}, big.NewInt(5), nil)
	lie.step(t, &flight.Claim{Kind: flight.ClaimNative, To: flight.Address{1}, Amount: big.NewInt(6)}, 31337, &sent)
	b := lie.batch(t, flight.EIP712)
	r.mustIngest(b)
	r.mustDisclose(lie.disclose(t, b, 0, "claim"), false)
	archive := r.export(lie.key.Address())
	if v := verifyBytes(t, archive, VerifyOptions{}); !v.OK {
		t.Errorf("offline: %s", v.Verdict)
	}
	v = verifyBytes(t, archive, VerifyOptions{Chains: []VerifyChain{r.client}, Attester: &attester})
	wantFailure(t, v, CheckOutcome, "disclosures/000001.ndjson line 1")
	if len(v.Archive.Failures) != 1 {
		t.Errorf("failures %+v; want the claim alone, for the node says the same", v.Archive.Failures)
	}
}

func TestArchiveFrame(t *testing.T) {
	r := newRecord(t)
	archive := r.export(r.agent)
	whole := unpack(t, archive)
	member := func(name string) []packed { return append([]packed{{name, []byte("{}\n")}}, whole...) }
	header := func(edit func(*tar.Header)) []byte {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: whole[0].name, Size: int64(len(whole[0].body)), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		edit(h)
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		return zipped(t, append(b.Bytes(), raw(t, whole)[tarBlock:]...))
	}
	tail := func(ms []packed, rest ...byte) []byte { return zipped(t, append(raw(t, ms), rest...)) }
	bomb := raw(t, whole[:1])[:tarBlock]
	copy(bomb[124:], "77777777777\x00")
	for _, c := range []struct {
		name, want string
		archive    []byte
	}{
		{"nothing", "no archive", nil},
		{"no gzip", "no archive", []byte("PK\x03\x04")},
		{"an empty gzip", "too early", zipped(t, nil)},
		{"no member", "without manifest.json", zipped(t, raw(t, nil))},
		{"no manifest", "without manifest.json", zipped(t, raw(t, whole[:3]))},
		{"cut after the manifest", "too early", zipped(t, raw(t, whole)[:len(raw(t, whole))-tarBlock])},
		{"cut compression", "too early", archive[:len(archive)/2]},
		{"damaged compression", "damaged", func() []byte { b := bytes.Clone(archive); b[len(b)-5] ^= 1; return b }()},
		{"bytes in front of the end", "follow the end", tail(whole, 1)},
		{"blocks after the end", "follow the end", tail(whole, make([]byte, tarBlock)...)},
		{"bytes after the compression", "follow the end", append(bytes.Clone(archive), 0)},
		{"a second compressed stream", "follow the end", append(bytes.Clone(archive), archive...)},
		{"a way up", "leads out", zipped(t, raw(t, member("batches/../../x")))},
		{"a way up in dots", "leads out", zipped(t, raw(t, member("../000001.ndjson")))},
		{"a root", "leads out", zipped(t, raw(t, member("/etc/passwd")))},
		{"a backslash", "leads out", zipped(t, raw(t, member(`batches\000001.ndjson`)))},
		{"an unknown member", "does not belong", zipped(t, raw(t, member("README.md")))},
		{"an unknown kind", "does not belong", zipped(t, raw(t, member("keys/000001.ndjson")))},
		{"a number in another form", "does not belong", zipped(t, raw(t, member("batches/00001a.ndjson")))},
		{"a number left out", "comes where", zipped(t, raw(t, member("batches/000002.ndjson")))},
		{"a member twice", "twice or out of order", zipped(t, raw(t, append([]packed{whole[0]}, whole...)))},
		{"kinds out of order", "twice or out of order", zipped(t, raw(t, []packed{whole[1], whole[0], whole[2], whole[3]}))},
		{"a member after the manifest", "follows the manifest", zipped(t, raw(t, []packed{whole[3], whole[0]}))},
		{"two manifests", "follows the manifest", zipped(t, raw(t, append(whole, whole[3])))},
		{"a link", "no plain file", header(func(h *tar.Header) { h.Typeflag, h.Size, h.Linkname = tar.TypeSymlink, 0, "/etc/passwd" })},
		{"a directory", "no plain file", header(func(h *tar.Header) { h.Typeflag, h.Size = tar.TypeDir, 0 })},
		{"extended headers", "no plain file", header(func(h *tar.Header) { h.Format, h.PAXRecords = tar.FormatPAX, map[string]string{"KARATUM.x": "y"} })},
		{"an owner", "no export writes", header(func(h *tar.Header) { h.Uid = 1000 })},
		{"a time", "no export writes", header(func(h *tar.Header) { h.ModTime = time.Unix(1, 0) })},
		{"a member of gigabytes", "at most", zipped(t, bomb)},
		{"padding that is no zeros", "padded", func() []byte {
			b := raw(t, whole)
			b[tarBlock+len(whole[0].body)] = 1
			return zipped(t, b)
		}()},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := verifyBytes(t, c.archive, VerifyOptions{})
			if v.OK || len(v.Archive.Failures) == 0 {
				t.Fatalf("taken: %s", v.Verdict)
			}
			if f := v.Archive.Failures[len(v.Archive.Failures)-1]; f.Code != CheckForm || !strings.Contains(f.Detail, c.want) {
				t.Errorf("%s: %s; want %q", f.Place, f.Detail, c.want)
			}
		})
	}
}

// An archive that is cut anywhere is refused, and so is one with a byte changed, unless
// that changes nothing of what is compressed: deflate has bits that say nothing.
func TestArchiveDamagedAnywhere(t *testing.T) {
	r := newRecord(t)
	archive := r.export(r.agent)
	for n := 0; n < len(archive); n += 1 + len(archive)/150 {
		if v := verifyBytes(t, archive[:n], VerifyOptions{}); v.OK {
			t.Fatalf("cut at %d of %d: %s", n, len(archive), v.Verdict)
		}
		b := bytes.Clone(archive)
		b[n] ^= 0x10
		if v := verifyBytes(t, b, VerifyOptions{}); v.OK && !slices.EqualFunc(unpack(t, b), unpack(t, archive), samePacked) {
			t.Fatalf("byte %d of %d changed: %s", n, len(archive), v.Verdict)
		}
	}
}

func samePacked(a, b packed) bool { return a.name == b.name && bytes.Equal(a.body, b.body) }

// A heapMeter measures what is alive while bytes pass.
type heapMeter struct {
	io.Writer
	io.Reader
	passed, next int
	base, peak   uint64
}

func alive() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (h *heapMeter) pass(n int) {
	if h.passed += n; h.passed >= h.next {
		h.peak = max(h.peak, alive())
		h.next = h.passed + 256<<10
	}
}

func (h *heapMeter) Write(b []byte) (int, error) { h.pass(len(b)); return h.Writer.Write(b) }

func (h *heapMeter) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	h.pass(n)
	return n, err
}

func TestExportInBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("signs some thousand batches")
	}
	const batches = 6000
	r := newRig(t, func(c *Config, _ *Deps) { c.BatchQuota = batches })
	a := newAuthor(t, "main")
	for range batches / 500 {
		var lines [][]byte
		for range 500 {
			a.fill(t, 1)
			lines = append(lines, encode(t, a.batch(t, flight.EIP712)))
		}
		for _, o := range r.app.IngestBulk(t.Context(), lines) {
			if o.Err != nil {
				t.Fatal(o.Err)
			}
		}
	}
	if _, err := r.app.AnchorNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	agent := a.key.Address()
	a = nil
	e, err := r.app.Export(t.Context(), agent)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.Grow(16 << 20)
	w := &heapMeter{Writer: &out, base: alive()}
	if err := e.Write(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	const bound = 12 << 20
	lines := 0
	for _, m := range unpack(t, out.Bytes()) {
		lines += len(m.body)
	}
	if w.peak > w.base+bound || lines < bound {
		t.Errorf("writing %d bytes of lines kept %d bytes alive, want under %d", lines, w.peak-w.base, bound)
	}
	rd := &heapMeter{Reader: bytes.NewReader(out.Bytes()), base: alive()}
	v := VerifyArchive(t.Context(), rd, VerifyOptions{})
	if !v.OK || v.Archive.Counts.Batches != batches || v.Archive.Epochs != (batches+flight.MaxEpoch-1)/flight.MaxEpoch {
		t.Fatalf("%s: %+v", v.Verdict, v.Archive)
	}
	if rd.peak > rd.base+bound {
		t.Errorf("reading %d bytes of lines kept %d bytes alive, want under %d", lines, rd.peak-rd.base, bound)
	}
	t.Logf("%d bytes in %d, %d alive while writing, %d while reading", lines, out.Len(), w.peak-w.base, rd.peak-rd.base)
}

func FuzzVerifyArchive(f *testing.F) {
	f.Add([]byte{})
	f.Add(raw(f, nil))
	f.Add(raw(f, []packed{{"batches/000001.ndjson", []byte("{}\n")}, {manifestName, []byte("{}\n")}}))
	f.Add(raw(f, []packed{{"evidence/000001.ndjson", []byte(`{"type":"x","reason":"ORDER","a":{},"b":{}}` + "\n")}}))
	f.Add(raw(f, []packed{{"disclosures/000001.ndjson", []byte(`{"disclosure":{"step":{},"reveal":{},"proof":{"index":0,"size":1,"siblings":[]},"batch":{}},"nodeClaims":{}}` + "\n")}}))
	f.Fuzz(func(t *testing.T, tarred []byte) {
		v := verifyBytes(t, zipped(t, tarred), VerifyOptions{})
		if v.OK {
			t.Errorf("a record that nobody signed is taken: %s", v.Verdict)
		}
		if got := verifyBytes(t, tarred, VerifyOptions{}); got.OK {
			t.Errorf("taken without compression: %s", got.Verdict)
		}
	})
}
