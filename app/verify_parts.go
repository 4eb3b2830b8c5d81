package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"karatum/flight"
	"karatum/flight/canon"
)

// verifyParts are the things found in the documents of a verification, at most
// one of each.
type verifyParts struct {
	disclosure *flight.Disclosure
	batch      *flight.Batch
	proof      *BatchProofView
	receipt    *flight.Receipt
	evidence   *flight.Evidence

	kinds     []string
	unchecked []string // keys beside the parts
}

// maxVerifyDepth leaves room for a disclosure inside an API answer.
const (
	maxVerifyDepth = flight.MaxDisclosureDepth + 4
	maxVerifyBytes = 2 * flight.MaxDisclosureBytes
)

var errTwice = errors.New("is there twice")

// add reads one document: strictly as JSON first, so that the maps used after it
// see what the hashes are made of, then by its kind. The canonical text writes 1.0
// and 1e0 as 1, which they are (spec section 1), so that all kinds read them.
func (p *verifyParts) add(doc []byte) error {
	if len(doc) > maxVerifyBytes {
		return fmt.Errorf("the document is over %d bytes", maxVerifyBytes)
	}
	v, err := canon.Parse(doc, maxVerifyDepth)
	if err != nil {
		return err
	}
	return p.read(canon.Append(nil, v), maxVerifyDepth-flight.MaxDisclosureDepth)
}

func (p *verifyParts) read(doc json.RawMessage, depth int) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(doc, &m); err != nil || m == nil {
		return errors.New("the document is no JSON object")
	}
	switch {
	case has(m, "type", "reason", "a", "b"):
		return p.readEvidence(doc)
	case has(m, "step", "reveal", "proof", "batch"):
		return p.readDisclosure(doc)
	case has(m, "header", "scheme", "signature"):
		return p.readBatch(m, depth)
	case has(m, "batchId", "epoch", "proof"):
		return p.readProof(doc)
	case has(m, "batchId", "position", "node", "signature"):
		return p.readReceipt(m)
	}
	return p.readJoined(m, depth)
}

func has(m map[string]json.RawMessage, keys ...string) bool {
	for _, k := range keys {
		if _, ok := m[k]; !ok {
			return false
		}
	}
	return true
}

// readJoined reads an object that holds parts under their names: a bundle, an API
// answer, or the body of a 409.
func (p *verifyParts) readJoined(m map[string]json.RawMessage, depth int) error {
	before := len(p.kinds)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		switch key {
		case "disclosure", "batch", "proof", "receipt", "evidence", "error", "details":
			if depth == 0 {
				return fmt.Errorf("%s is nested too deep", key)
			}
			err := p.read(m[key], depth-1)
			if refusal := refusalIn(m); errors.Is(err, errNothing) && refusal != nil {
				return refusal
			}
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		default:
			p.unchecked = append(p.unchecked, key)
		}
	}
	if len(p.kinds) == before {
		return errNothing
	}
	return nil
}

var errNothing = errors.New("this is no disclosure, batch, batch proof, receipt or evidence, nor does it hold one")

// refusalIn returns what an error answer of the API says, nil where the object is none.
func refusalIn(m map[string]json.RawMessage) error {
	var e struct{ Code, Message string }
	if json.Unmarshal(m["error"], &e) != nil || e.Code == "" {
		return nil
	}
	return fmt.Errorf("this is no document but a node's refusal: %s, %s", e.Code, e.Message)
}

func (p *verifyParts) found(kind string, again bool) error {
	if again {
		return fmt.Errorf("a %s %w", kind, errTwice)
	}
	p.kinds = append(p.kinds, kind)
	return nil
}

func (p *verifyParts) readDisclosure(doc []byte) error {
	d, err := flight.ParseDisclosure(doc)
	if err != nil {
		return err
	}
	again := p.disclosure != nil
	p.disclosure = d
	return p.found("disclosure", again)
}

func (p *verifyParts) readEvidence(doc []byte) error {
	e, err := flight.ParseEvidence(doc)
	if err != nil {
		return err
	}
	again := p.evidence != nil
	p.evidence = e
	return p.found("evidence", again)
}

// readBatch reads the signed batch, and the receipt that the API shows beside it.
func (p *verifyParts) readBatch(m map[string]json.RawMessage, depth int) error {
	text, err := json.Marshal(map[string]json.RawMessage{"header": m["header"], "scheme": m["scheme"], "signature": m["signature"]})
	if err != nil {
		return err
	}
	b, err := flight.ParseBatch(text)
	if err != nil {
		return err
	}
	again := p.batch != nil
	p.batch = &b
	if err := p.found("batch", again); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		switch key {
		case "header", "scheme", "signature":
		case "receipt":
			if err := p.read(m[key], depth-1); err != nil {
				return fmt.Errorf("receipt: %w", err)
			}
		default:
			p.unchecked = append(p.unchecked, key)
		}
	}
	return nil
}

// readProof reads the proof strictly. The anchor only says where to look, so what it
// holds beyond that is let through; it is null before there is one.
func (p *verifyParts) readProof(doc []byte) error {
	var parts struct {
		BatchID flight.Hash     `json:"batchId"`
		Epoch   json.RawMessage `json:"epoch"`
		Proof   json.RawMessage `json:"proof"`
		Anchor  json.RawMessage `json:"anchor"`
	}
	if err := strict(doc, &parts); err != nil {
		return err
	}
	v := &BatchProofView{BatchID: parts.BatchID}
	if err := whole("epoch", parts.Epoch, &v.Epoch, "root", "batchCount"); err != nil {
		return err
	}
	if v.Epoch.BatchCount > maxCount {
		return errors.New("epoch.batchCount: must be an integer from 0 to 2^53-1")
	}
	var err error
	if v.Proof, err = flight.ParseProof(parts.Proof); err != nil {
		return fmt.Errorf("proof: %w", err)
	}
	if err := readAnchor(parts.Anchor, &v.Anchor); err != nil {
		return fmt.Errorf("anchor: %w", err)
	}
	again := p.proof != nil
	p.proof = v
	return p.found("batch proof", again)
}

// readAnchor reads where to look, by keys spelled exactly so, and leaves the rest.
func readAnchor(doc json.RawMessage, v *AnchorView) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(doc, &m); err != nil {
		return errors.New("must be an object or null")
	}
	if m == nil {
		return nil
	}
	if err := json.Unmarshal(m["chainId"], &v.ChainID); err != nil || string(m["chainId"]) == "null" || v.ChainID > maxCount {
		return errors.New("chainId: must be an integer from 0 to 2^53-1")
	}
	if m["txHash"] != nil {
		if err := json.Unmarshal(m["txHash"], &v.TxHash); err != nil {
			return fmt.Errorf("txHash: %w", err)
		}
	}
	if json.Unmarshal(m["eas"], &v.EAS) != nil {
		v.EAS = flight.Address{} // of no network
	}
	return nil
}

// maxCount is the greatest integer that the protocol's numbers hold.
const maxCount = 1<<53 - 1

// whole reads an object strictly that must hold each of the keys.
func whole(path string, doc json.RawMessage, v any, keys ...string) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(doc, &m); err != nil {
		return within(path, err)
	}
	for _, k := range keys {
		if held, ok := m[k]; !ok || string(held) == "null" {
			return within(path, fmt.Errorf("%s: is missing", k))
		}
	}
	return within(path, strict(doc, v))
}

func within(path string, err error) error {
	if err == nil || path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// readReceipt reads a receipt, alone or as the answer to a batch, which says more
// that nobody signed.
func (p *verifyParts) readReceipt(m map[string]json.RawMessage) error {
	signed := []string{"batchId", "position", "receivedAt", "anchorBy", "node", "signature", "group"}
	own := map[string]json.RawMessage{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if slices.Contains(signed, key) {
			own[key] = m[key]
			continue
		}
		p.unchecked = append(p.unchecked, key)
	}
	doc, err := json.Marshal(own)
	if err != nil {
		return err
	}
	r := &flight.Receipt{}
	if err := whole("", doc, r, signed[:6]...); err != nil {
		return err
	}
	if err := readGroup(own["group"], r); err != nil {
		return fmt.Errorf("group: %w", err)
	}
	counts := []uint64{r.Position, r.ReceivedAt, r.AnchorBy}
	if r.Group != nil {
		counts = append(counts, r.Group.Size, r.Group.Proof.Index, r.Group.Proof.Size)
	}
	if slices.Max(counts) > maxCount {
		return errors.New("a number is over 2^53-1")
	}
	again := p.receipt != nil
	p.receipt = r
	return p.found("receipt", again)
}

// readGroup reads the commit group that the receipt shares its signature with, if it
// has one.
func readGroup(doc json.RawMessage, r *flight.Receipt) error {
	if doc == nil {
		return nil
	}
	var parts struct{ Proof json.RawMessage }
	err := whole("", doc, &flight.ReceiptGroup{}, "root", "size", "proof")
	if err == nil {
		err = json.Unmarshal(doc, &parts)
	}
	if err == nil {
		r.Group.Proof, err = flight.ParseProof(parts.Proof)
	}
	return err
}

// strict fills v, a pointer to a struct, and refuses keys that are not spelled
// exactly as one of its fields: encoding/json alone would take Root for root.
func strict(doc []byte, v any) error {
	if err := knownKeys("", doc, reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	return json.Unmarshal(doc, v)
}

func knownKeys(path string, doc []byte, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var m map[string]json.RawMessage
	if t.Kind() != reflect.Struct || json.Unmarshal(doc, &m) != nil {
		return nil // Unmarshal into the type judges it
	}
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Type
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		ft, ok := fields[key]
		if !ok {
			return fmt.Errorf("unknown key %q", path+key)
		}
		if err := knownKeys(path+key+".", m[key], ft); err != nil {
			return err
		}
	}
	return nil
}

// batchIDs returns the batchId of each part that speaks of one batch.
func (p *verifyParts) batchIDs() []flight.Hash {
	var ids []flight.Hash
	if p.disclosure != nil {
		ids = append(ids, p.disclosure.Batch.ID())
	}
	if p.batch != nil {
		ids = append(ids, p.batch.ID())
	}
	if p.proof != nil {
		ids = append(ids, p.proof.BatchID)
	}
	if p.receipt != nil {
		ids = append(ids, p.receipt.BatchID)
	}
	return ids
}
