package sdk

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// flightVectors are the parts of the vector file that these tests start from.
type flightVectors struct {
	Disclosures []object
	Tampered    []struct{ Disclosure object }
	BrokenChain object
	Epoch       struct {
		BatchIDs       []string
		Root           string
		Proofs         []any
		AttestCalldata string
	}
}

func loadVectors(t *testing.T) flightVectors {
	t.Helper()
	text, err := os.ReadFile(vectors)
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Flight flightVectors }
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v.Flight
}

func jsonText(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const (
	anchorTx = "0x00000000000000000000000000000000000000000000000000000000000000aa"
	attester = "0x1111111111111111111111111111111111111111"
)

// anchoring is the proof of the vectors' first batch, as the node serves it.
func anchoring(v flightVectors) object {
	return object{
		"batchId": v.Epoch.BatchIDs[0], "epoch": object{"root": v.Epoch.Root, "batchCount": len(v.Epoch.BatchIDs)}, "proof": v.Epoch.Proofs[0],
		"anchor": object{"chainId": 31337, "txHash": anchorTx, "blockNumber": 5, "state": "final"},
	}
}

// both asks the two harnesses the same.
func both(t *testing.T, op string, lines, want []string) {
	t.Run("js", func(t *testing.T) { agree(t, "JavaScript", lines, want, askJS(t, op, lines)) })
	t.Run("python", func(t *testing.T) { agree(t, "Python", lines, want, askPython(t, op, lines)) })
}

// TestForging makes the edits that the pages offer and expects exactly the right
// rows to fail.
func TestForging(t *testing.T) {
	t.Parallel()
	v := loadVectors(t)
	set := func(path string, change func(any) any) func(object) {
		keys := strings.Split(path, ".")
		return func(d object) {
			at := d
			for _, k := range keys[:len(keys)-1] {
				at = at[k].(object)
			}
			last := keys[len(keys)-1]
			at[last] = change(at[last])
		}
	}
	constant := func(v any) func(any) any { return func(any) any { return v } }
	var lines, want []string
	for _, c := range []struct {
		name, fails string
		forge       func(object)
	}{
		{"nothing", "", func(object) {}},
		{"amount", "reveal", set("disclosure.reveal.claim.value.value", constant("2000000000000000000"))},
		{"salt", "reveal", set("disclosure.reveal.args.salt", constant("0x"+strings.Repeat("0", 64)))},
		{"step moved", "place path", set("disclosure.step.seq", constant(1))},
		{"date", "signature epoch", set("disclosure.batch.header.createdAt", constant(1760000099))},
		{"sibling dropped", "path", set("disclosure.proof.siblings", constant([]any{}))},
		{"signature", "signature", set("disclosure.batch.signature", func(v any) any { return v.(string)[:10] + "0123" + v.(string)[14:] })},
		{"other epoch", "epoch", set("proof.epoch.root", constant("0x"+strings.Repeat("1", 64)))},
		{"other count", "epoch", set("proof.epoch.batchCount", constant(8))},
		{"other batch", "epoch", set("proof.batchId", constant("0x"+strings.Repeat("1", 64)))},
	} {
		d := jsonObject(t, object{"disclosure": v.Disclosures[2], "proof": anchoring(v)})
		c.forge(d)
		var rows []string
		for _, id := range strings.Fields("step signature place path links reveal epoch anchor") {
			state := "pass"
			switch {
			case strings.Contains(" "+c.fails+" ", " "+id+" "):
				state = "fail"
			case id == "anchor", id == "links" && strings.Contains(c.fails, "place"):
				state = "skip"
			}
			rows = append(rows, id+":"+state)
		}
		lines, want = append(lines, hexLine(jsonText(t, d))), append(want, strings.Join(rows, " "))
	}
	both(t, "rows", lines, want)
}

// jsonObject turns nested values into what a decoder yields.
func jsonObject(t *testing.T, v any) (o object) {
	t.Helper()
	if err := json.Unmarshal(jsonText(t, v), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestVerifyAnchor has an RPC tell the truth and several lies.
func TestVerifyAnchor(t *testing.T) {
	t.Parallel()
	v := loadVectors(t)
	lies := map[string]func(method string, result object){
		"truth":      func(string, object) {},
		"count":      func(_ string, r object) { r["input"] = strings.Replace(v.Epoch.AttestCalldata, "0007", "0008", 1) },
		"longer":     func(_ string, r object) { r["input"] = v.Epoch.AttestCalldata + "00" },
		"contract":   func(_ string, r object) { r["to"] = attester },
		"creation":   func(_ string, r object) { r["to"] = nil },
		"reverted":   func(_ string, r object) { r["status"] = "0x0" },
		"other tx":   func(_ string, r object) { r["hash"] = "0x" + strings.Repeat("b", 64) },
		"no block":   func(_ string, r object) { delete(r, "blockNumber"); delete(r, "status") },
		"checksum":   func(_ string, r object) { r["from"], r["input"] = strings.ToUpper(attester), v.Epoch.AttestCalldata },
		"no tx":      nil,
		"chain":      nil,
		"no JSON":    nil,
		"redirect":   nil,
		"error":      nil,
		"wrong type": nil,
	}
	rpc := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.ReplaceAll(strings.TrimPrefix(r.URL.Path, "/"), "_", " ")
		var call struct{ Method string }
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			refuse(w, 400, "BAD", err.Error(), nil)
			return
		}
		var result any
		switch {
		case name == "redirect":
			http.Redirect(w, r, "/truth", http.StatusTemporaryRedirect)
			return
		case name == "no JSON":
			w.Write([]byte("<html>"))
			return
		case name == "error":
			answer(w, 200, object{"error": object{"code": -32000, "message": "no"}})
			return
		case name == "wrong type":
			result = []int{1}
		case call.Method == "eth_chainId":
			result = map[bool]string{true: "0x1", false: "0x7a69"}[name == "chain"]
		case name == "no tx":
		case call.Method == "eth_getTransactionByHash":
			tx := object{"hash": anchorTx, "from": attester, "to": "0x4200000000000000000000000000000000000021", "input": v.Epoch.AttestCalldata}
			if lies[name] != nil {
				lies[name](call.Method, tx)
			}
			result = tx
		default:
			receipt := object{"transactionHash": anchorTx, "status": "0x1", "blockNumber": "0x5", "blockHash": anchorTx}
			if lies[name] != nil {
				lies[name](call.Method, receipt)
			}
			result = receipt
		}
		answer(w, 200, object{"jsonrpc": "2.0", "id": 1, "result": result})
	}))
	t.Cleanup(rpc.Close)

	good := hexLine(jsonText(t, anchoring(v)))
	var lines, want []string
	add := func(document, url, who, answer string) {
		lines, want = append(lines, document+" "+url+" "+who), append(want, answer)
	}
	for name := range lies {
		url := rpc.URL + "/" + strings.ReplaceAll(name, " ", "_")
		if name == "truth" || name == "checksum" {
			add(good, url, attester, "complete epoch:pass anchor:pass")
		} else {
			add(good, url, attester, "ANCHOR epoch:pass anchor:fail")
		}
	}
	add(good, rpc.URL+"/truth", "-", "ok epoch:pass anchor:partial")
	add(good, rpc.URL+"/truth", "0x"+strings.Repeat("2", 40), "ANCHOR epoch:pass anchor:fail")
	add(good, "-", "-", "ok epoch:pass anchor:skip")

	change := func(key string, value any) string {
		a := jsonObject(t, anchoring(v))
		a[key] = value
		return hexLine(jsonText(t, a))
	}
	elsewhere := object{"chainId": 1, "txHash": anchorTx}
	add(change("anchor", elsewhere), rpc.URL+"/chain", attester, "ANCHOR epoch:pass anchor:fail") // no EAS known there
	add(change("anchor", object{"chainId": 31337}), rpc.URL+"/truth", attester, "ANCHOR epoch:pass anchor:fail")
	add(change("proof", object{"index": 0, "size": 7, "siblings": []any{}}), rpc.URL+"/truth", attester, "EPOCH epoch:fail anchor:pass")
	add(change("anchor", nil), rpc.URL+"/truth", attester, "BAD_REQUEST")
	add(change("more", 1), rpc.URL+"/truth", attester, "BAD_REQUEST")
	both(t, "anchor", lines, want)
}

// TestVerifyCommand runs the checkers on files, as a reader would.
func TestVerifyCommand(t *testing.T) {
	t.Parallel()
	v := loadVectors(t)
	for _, c := range []struct {
		name     string
		document any
		exit     bool
		says     []string
	}{
		{"disclosure", v.Disclosures[2], true, []string{"ok   signature", "-    epoch", "no check failed; not every check could run"}},
		{"tampered", v.Tampered[0].Disclosure, false, []string{"ok   signature", "FAIL reveal", "refused: COMMITMENT: "}},
		{"evidence", v.BrokenChain, true, []string{"ok   a ", "ok   b ", "ok   contradiction", "all checks passed"}},
		{"anchoring", anchoring(v), true, []string{"ok   epoch"}},
		{"bundle", object{"disclosure": v.Disclosures[2], "proof": anchoring(v)}, true, []string{"ok   signature", "ok   epoch"}},
		{"not ours", []int{1}, false, []string{"refused: BAD_REQUEST: "}},
	} {
		file := filepath.Join(t.TempDir(), "document.json")
		writeFile(t, file, string(jsonText(t, c.document)))
		conformances(t, func(t *testing.T, command []string) {
			out, err := try(t.Context(), "", command[0], command[1], "verify", file)
			if (err == nil) != c.exit {
				t.Errorf("%s: exit %v", c.name, err)
			}
			for _, line := range c.says {
				if !strings.Contains(out, line) {
					t.Errorf("%s: no %q in\n%s", c.name, line, out)
				}
			}
		})
	}
	conformances(t, func(t *testing.T, command []string) {
		for _, args := range [][]string{{}, {"verify"}, {"sing", "x"}, {"verify", "/nonexistent"}, {"verify", vectors, "--what", "x"}} {
			out, err := try(t.Context(), "", command[0], append([]string{command[1]}, args...)...)
			if err == nil || strings.Contains(out, "Traceback") || strings.Contains(out, "    at ") {
				t.Errorf("%q: exit %v, output %s", args, err, out)
			}
		}
	})
}

// TestWallets signs with the accounts and clients of viem and compares with what
// the raw key signs: the recorder checks each signature before it counts.
func TestWallets(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("../../.ci/npm/node_modules/viem/_esm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		missing(t, "run npm ci --prefix .ci/npm for viem")
	}
	script := `
import { Recorder, batchSigner } from './karatum-flight.mjs';
const [dir, key] = process.argv.slice(2);
const { privateKeyToAccount } = await import('file://' + dir + '/accounts/index.js');
const { createWalletClient, custom } = await import('file://' + dir + '/index.js');
const account = privateKeyToAccount(key), transport = custom({ request: async () => { throw new Error('offline'); } });
const wallet = custom({ request: async ({ method, params: [first, second] }) => { // a browser's, which holds the key
  if (method === 'personal_sign') return account.signMessage({ message: { raw: first } });
  if (method === 'eth_signTypedData_v4' && first === account.address) return account.signTypedData(JSON.parse(second));
  throw new Error('unexpected ' + method);
} });
const ethers = { getAddress: async () => account.address, signMessage: (message) => account.signMessage({ message }),
  signTypedData: (domain, types, message) => account.signTypedData({ domain, types, primaryType: Object.keys(types)[0], message }) };
const { signTypedData: _signTypedData, ...others } = ethers, ethers5 = { ...others, _signTypedData };
for (const signer of [key, account, createWalletClient({ account, transport }), createWalletClient({ account: account.address, transport: wallet }), ethers, ethers5]) for (const scheme of ['eip712', 'eip191']) {
  const errors = [];
  let sent;
  const fetch = async (url, { method, body }) => { if (method === 'POST') sent = JSON.parse(body); return new Response(method === 'POST' ? '{}' : '{"error":{"code":"UNKNOWN_STREAM"}}', { status: 404 }); };
  const recorder = await Recorder.open({ node: 'http://node.invalid', signer, scheme, stream: 'na\u00efve \u{1f600}', fetch, onError: (e) => errors.push(e.code) });
  recorder.record({ kind: 'note' });
  await recorder.flush();
  console.log(sent.scheme, batchSigner(sent) === recorder.address, ...errors);
}
for (const signer of [createWalletClient({ transport }), null, {}]) await Recorder.open({ node: 'http://node.invalid', signer }).catch((e) => console.log(e.code, e.field));
process.exit();
`
	want := strings.Repeat("eip712 true HTTP\neip191 true HTTP\n", 6) + strings.Repeat("SIGNER signer\n", 3)
	if got := run(t, script, node(t), "--input-type=module", "-", dir, agentKey); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
