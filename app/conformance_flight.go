package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"karatum/chain/eas"
	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/merkle"
)

// flightVectors holds what the vectors of the flight section share.
type flightVectors struct {
	run  *vectorRun
	key  *flight.Key // signs every batch
	node *flight.Key // signs every receipt
}

func checkFlightVectors(n vectorNode) {
	f := &flightVectors{run: n.run, key: vectorKey(n, "privateKey")}
	n.run.same(n.at("agent"), n.text("agent"), f.key.Address().String())
	stream := n.text("stream")
	n.run.ok(n.at("stream"), flight.CheckStream(stream))
	for _, c := range n.nodes("commits") {
		f.commit(c)
	}
	for _, c := range n.list("claims") {
		f.claim(c)
	}
	for _, s := range n.nodes("steps") {
		f.step(s, stream)
	}
	for _, b := range n.nodes("batches") {
		f.batch(b)
	}
	f.signatureForms(n.object("signatureForms"))
	for _, e := range n.nodes("equivocations") {
		f.equivocation(e)
	}
	for _, e := range n.nodes("notEquivocations") {
		f.notEquivocation(e)
	}
	for _, e := range n.nodes("impossible") {
		f.impossible(e)
	}
	f.receipt(n.object("receipt"))
	f.receiptGroup(n.object("receiptGroup"))
	f.brokenChain(n.at("brokenChain"), n.raw("brokenChain"))
	for _, d := range n.list("disclosures") {
		f.disclosure(d)
	}
	for _, d := range n.nodes("tampered") {
		f.tampered(d)
	}
	for _, t := range n.nodes("merkle") {
		f.tree(t, "items")
		t.done()
	}
	f.epoch(n.object("epoch"))
	for _, r := range n.nodes("ratings") {
		f.rating(r)
	}
	n.done()
}

// vectorKey reads a private key; a bad one is a failure and yields key 1, so that
// the other vectors still run.
func vectorKey(n vectorNode, field string) *flight.Key {
	raw, err := flight.ParseHex(n.text(field))
	var k *flight.Key
	if err == nil {
		k, err = flight.KeyFromBytes(raw)
	}
	n.run.ok(n.at(field), err)
	if err != nil {
		k, _ = flight.KeyFromBytes(append(make([]byte, 31), 1))
	}
	return k
}

func vectorHash(n vectorNode, key string) flight.Hash {
	h, err := flight.ParseHash(n.text(key))
	if err != nil {
		n.run.fail(n.at(key), "%v", err)
	}
	return h
}

func (f *flightVectors) commit(n vectorNode) {
	n.ignore("why")
	text, err := canon.Canonical([]byte(n.text("raw")))
	f.run.ok(n.at("raw"), err)
	f.run.same(n.at("canonical"), n.text("canonical"), string(text))
	f.run.same(n.at("commitment"), n.text("commitment"), flight.Commit(text, vectorHash(n, "salt")).String())
	n.done()
}

func (f *flightVectors) claim(e vectorElem) {
	v := f.run.value(e.path, e.raw)
	c, err := flight.ParseClaim(v)
	f.run.ok(e.path, err)
	if err == nil {
		f.run.same(e.path, string(canon.Append(nil, v)), string(canon.Append(nil, c.Value())))
	}
}

func (f *flightVectors) step(n vectorNode, stream string) {
	s, err := flight.ParseStep(f.run.value(n.at("step"), n.raw("step")))
	f.run.ok(n.at("step"), err)
	f.run.same(n.at("step.stream"), stream, s.Stream)
	f.run.same(n.at("step.agent"), f.key.Address().String(), s.Agent.String())
	f.run.same(n.at("canonical"), n.text("canonical"), string(s.Canonical()))
	f.run.same(n.at("stepHash"), n.text("stepHash"), s.Hash().String())
	f.run.same(n.at("leaf"), n.text("leaf"), merkle.Leaf(s.Hash()).String())
	f.openings(n.object("openings"), &s)
	n.done()
}

// openings checks that every opening meets the step's commitment, and that the
// step has one.
func (f *flightVectors) openings(n vectorNode, s *flight.Step) {
	if len(n.obj) == 0 {
		f.run.fail(n.path, "holds no vectors")
	}
	for _, field := range slices.Sorted(maps.Keys(n.obj)) {
		o := n.object(field)
		want := "no commitment"
		if c := s.Commitment(field); c != nil {
			want = c.String()
		}
		got, err := flight.CommitValue(f.run.value(o.at("value"), o.raw("value")), vectorHash(o, "salt"))
		f.run.ok(o.at("value"), err)
		f.run.same(o.path, want, got.String())
		o.done()
	}
}

// ingestVector reads a batch as the API would.
func ingestVector(header json.RawMessage, scheme flight.Scheme, signature string) (flight.Batch, error) {
	return flight.ParseBatch(fmt.Appendf(nil, `{"header":%s,"scheme":%q,"signature":%q}`, header, scheme, signature))
}

// batch checks a header with its batchId, text and both signatures, and returns
// the signed statements, eip712 first.
func (f *flightVectors) batch(n vectorNode) (signed []flight.Batch) {
	n.ignore("why")
	header := n.raw("header")
	sigs := n.object("signatures")
	for _, scheme := range []flight.Scheme{flight.EIP712, flight.EIP191} {
		want, at := sigs.text(string(scheme)), sigs.at(string(scheme))
		b, err := ingestVector(header, scheme, want)
		f.run.ok(at, err)
		f.run.ok(at, b.Verify())
		f.run.same(at, want, b.Header.Sign(f.key, scheme).Signature.String())
		f.run.same(n.at("batchId"), n.text("batchId"), b.ID().String())
		f.run.same(n.at("eip191Text"), n.text("eip191Text"), b.Header.Text())
		signed = append(signed, b)
	}
	sigs.done()
	n.done()
	return signed
}

func (f *flightVectors) signatureForms(n vectorNode) {
	header := n.raw("header")
	for _, c := range n.nodes("accept") {
		c.ignore("why")
		b, err := ingestVector(header, flight.EIP712, c.text("signature"))
		f.run.ok(c.at("signature"), err)
		f.run.ok(c.at("signature"), b.Verify())
		f.run.same(c.at("signature"), b.Header.Sign(f.key, flight.EIP712).Signature.String(), b.Signature.String())
		c.done()
	}
	for _, c := range n.nodes("reject") {
		c.ignore("why")
		_, err := ingestVector(header, flight.EIP712, c.text("signature"))
		f.run.same(c.at("signature"), "signature", refusedField(err))
		c.done()
	}
	n.done()
}

// refusedField returns the field that a refusal names.
func refusedField(err error) string {
	var fe *flight.FieldError
	if errors.As(err, &fe) {
		return fe.Field
	}
	return vectorOutcome(err)
}

func (f *flightVectors) equivocation(n vectorNode) {
	n.ignore("why")
	reason := n.text("reason")
	a, b := f.batch(n.object("a")), f.batch(n.object("b"))
	for i := range a {
		f.evidence(n.path, reason, a[i], b[i])
		f.evidence(n.path, reason, b[i], a[i])
	}
	n.done()
}

// evidence packs two statements and checks the evidence as a stranger would, from
// its JSON alone.
func (f *flightVectors) evidence(path, reason string, stored, other flight.Batch) {
	f.run.same(path, reason, string(flight.Conflict(&stored.Header, &other.Header)))
	e := flight.NewEvidence(stored, other)
	if e == nil {
		f.run.fail(path, "no evidence was made")
		return
	}
	text, err := json.Marshal(e)
	f.run.ok(path, err)
	read, err := flight.ParseEvidence(text)
	f.run.ok(path, err)
	if err == nil {
		f.run.same(path, reason, string(read.Reason))
		f.run.ok(path, read.Verify())
	}
}

func (f *flightVectors) notEquivocation(n vectorNode) {
	n.ignore("why")
	a, b := f.batch(n.object("a")), f.batch(n.object("b"))
	for _, x := range a {
		for _, y := range b {
			f.run.same(n.path, "", string(flight.Conflict(&x.Header, &y.Header)))
			f.run.same(n.path, "", string(flight.Conflict(&y.Header, &x.Header)))
			if flight.NewEvidence(x, y) != nil || flight.NewEvidence(y, x) != nil {
				f.run.fail(n.path, "evidence was made of an honest pair")
			}
		}
	}
	n.done()
}

func (f *flightVectors) impossible(n vectorNode) {
	n.ignore("why")
	wellFormed := f.key.Sign(flight.Hash{}).String()
	_, err := ingestVector(n.raw("header"), flight.EIP712, wellFormed)
	f.run.same(n.at("header"), n.text("field"), refusedField(err))
	n.done()
}

// receipt checks the text by reading its values and writing it again.
func (f *flightVectors) receipt(n vectorNode) {
	f.node = vectorKey(n, "nodeKey")
	f.run.same(n.at("node"), n.text("node"), f.node.Address().String())
	text := n.text("text")
	r := f.readReceipt(n.at("text"), text)
	r.Signature = f.node.SignText(text)
	f.run.same(n.at("signature"), n.text("signature"), r.Signature.String())
	f.run.ok(n.at("signature"), r.Verify())
	n.done()
}

func (f *flightVectors) readReceipt(path, text string) flight.Receipt {
	var id string
	r := flight.Receipt{Node: f.node.Address()}
	_, err := fmt.Sscanf(text, "Karatum Flight Receipt v1\nbatchId: %s\nposition: %d\nreceivedAt: %d\nanchorBy: %d",
		&id, &r.Position, &r.ReceivedAt, &r.AnchorBy)
	f.run.ok(path, err)
	r.BatchID, err = flight.ParseHash(id)
	f.run.ok(path, err)
	f.run.same(path, text, r.Text())
	return r
}

func (f *flightVectors) receiptGroup(n vectorNode) {
	root, items, proofs := f.tree(n, "items")
	size := uint64(len(items))
	texts := n.list("texts")
	f.run.same(n.at("texts"), fmt.Sprint(size), fmt.Sprint(len(texts)))
	f.run.same(n.at("proofs"), fmt.Sprint(size), fmt.Sprint(len(proofs)))
	f.run.same(n.at("text"), n.text("text"), flight.GroupText(root, size))
	sig := f.node.SignText(flight.GroupText(root, size))
	f.run.same(n.at("signature"), n.text("signature"), sig.String())
	for i, t := range texts[:min(len(texts), len(items))] {
		var s string
		if err := json.Unmarshal(t.raw, &s); err != nil {
			f.run.fail(t.path, "is no string")
		}
		r := f.readReceipt(t.path, s)
		f.run.same(t.path, items[i].String(), r.Item().String())
		r.Signature = sig
		r.Group = &flight.ReceiptGroup{Root: root, Size: size, Proof: proofs[uint64(i)]}
		f.run.ok(t.path, r.Verify())
	}
	n.done()
}

func (f *flightVectors) brokenChain(path string, raw json.RawMessage) {
	if raw == nil {
		return
	}
	e, err := flight.ParseEvidence(raw)
	f.run.ok(path, err)
	if err != nil {
		return
	}
	f.run.same(path+".reason", string(flight.BrokenChain), string(e.Reason))
	f.run.ok(path, e.Verify())
	again, err := json.Marshal(e)
	f.run.ok(path, err)
	f.run.same(path, canonOrError(raw), canonOrError(again))
	if flight.NewBrokenChain(e.StepA, e.StepB) == nil {
		f.run.fail(path, "no evidence was made")
	}
}

// canonOrError returns a text to compare documents by, whatever the order of
// their keys.
func canonOrError(raw []byte) string {
	b, err := canon.Canonical(raw)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (f *flightVectors) disclosure(e vectorElem) {
	d, err := flight.ParseDisclosure(e.raw)
	f.run.ok(e.path, err)
	if err != nil {
		return
	}
	f.run.ok(e.path, d.Verify().Err())
	again, err := json.Marshal(d)
	f.run.ok(e.path, err)
	f.run.same(e.path, canonOrError(e.raw), canonOrError(again))
}

func (f *flightVectors) tampered(n vectorNode) {
	n.ignore("why")
	d, err := flight.ParseDisclosure(n.raw("disclosure"))
	if err != nil {
		f.run.fail(n.at("disclosure"), "its outer shape was refused: %v", err)
		return
	}
	got := "ok"
	var failed *flight.CheckError
	if err := d.Verify().Err(); errors.As(err, &failed) {
		got = string(failed.Code)
	}
	f.run.same(n.at("code"), n.text("code"), got)
	n.done()
}

// tree checks the root over the items under key and the proofs, each of which must
// also be the one that is made here. It returns the proofs by index.
func (f *flightVectors) tree(n vectorNode, key string) (root flight.Hash, items []flight.Hash, proofs map[uint64]flight.Proof) {
	for _, e := range n.list(key) {
		var h flight.Hash
		if err := json.Unmarshal(e.raw, &h); err != nil {
			f.run.fail(e.path, "%v", err)
		}
		items = append(items, h)
	}
	root, err := merkle.Root(items)
	f.run.ok(n.at("root"), err)
	f.run.same(n.at("root"), n.text("root"), root.String())
	proofs = map[uint64]flight.Proof{}
	again, all, err := merkle.Proofs(items)
	f.run.ok(n.at("root"), err)
	f.run.same(n.at("root"), root.String(), again.String())
	for _, e := range n.list("proofs") {
		p, err := flight.ParseProof(e.raw)
		f.run.ok(e.path, err)
		made, err := merkle.Prove(items, int(min(p.Index, uint64(len(items)))))
		f.run.ok(e.path, err)
		if err != nil {
			continue
		}
		f.run.same(e.path, fmt.Sprint(made), fmt.Sprint(all[p.Index]))
		f.run.ok(e.path, merkle.Verify(root, uint64(len(items)), items[p.Index], p))
		text, err := json.Marshal(made)
		f.run.ok(e.path, err)
		f.run.same(e.path, canonOrError(e.raw), canonOrError(text))
		proofs[p.Index] = p
	}
	return root, items, proofs
}

func (f *flightVectors) epoch(n vectorNode) {
	root, ids, proofs := f.tree(n, "batchIds")
	f.run.same(n.at("proofs"), fmt.Sprint(len(ids)), fmt.Sprint(len(proofs)))
	got, err := flight.EpochRoot(ids)
	f.run.ok(n.at("root"), err)
	f.run.same(n.at("root"), root.String(), got.String())
	for i, id := range ids {
		f.run.ok(n.at("proofs"), flight.VerifyEpoch(root, uint64(len(ids)), id, proofs[uint64(i)]))
	}
	f.attestation(n, eas.Epoch{Root: root, Count: uint32(len(ids)), Spec: eas.SpecV1})
	n.done()
}

// attestation checks what is written to the chain for an epoch, and that it reads
// back.
func (f *flightVectors) attestation(n vectorNode, e eas.Epoch) {
	f.run.same(n.at("schema"), n.text("schema"), eas.Schema)
	f.run.same(n.at("schemaUid"), n.text("schemaUid"), flight.Hash(eas.EpochSchemaUID()).String())
	f.run.same(n.at("attestationData"), n.text("attestationData"), fmt.Sprintf("0x%x", e.Data()))
	f.run.same(n.at("attestCalldata"), n.text("attestCalldata"), fmt.Sprintf("0x%x", e.Calldata()))
	input, err := flight.ParseHex(n.text("attestCalldata"))
	f.run.ok(n.at("attestCalldata"), err)
	read, err := eas.ParseEpochCalldata(input)
	f.run.ok(n.at("attestCalldata"), err)
	f.run.same(n.at("root"), n.text("root"), flight.Hash(read.Root).String())
}

func (f *flightVectors) rating(n vectorNode) {
	var confirmed, contradicted uint64
	if err := errors.Join(json.Unmarshal(n.raw("confirmed"), &confirmed), json.Unmarshal(n.raw("contradicted"), &contradicted)); err != nil {
		f.run.fail(n.path, "%v", err)
	}
	got, err := json.Marshal(flight.Rating(confirmed, contradicted))
	f.run.ok(n.path, err)
	f.run.same(n.at("rating"), string(n.raw("rating")), string(got))
	n.done()
}
