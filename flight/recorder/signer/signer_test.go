package signer

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"karatum/flight"
	"karatum/flight/recorder"
	"karatum/flight/recorder/internal/testnode"
)

var secret = append(make([]byte, 31), 42)

func header(agent flight.Address) flight.Header {
	return flight.Header{
		Agent: agent, Stream: "mäin-01234567", Index: 3, FromSeq: 1 << 40, ToSeq: 1<<53 - 1,
		PrevHead: flight.Hash{1}, Head: flight.Hash{2}, Root: flight.Hash{3}, CreatedAt: 1700000000,
	}
}

// A wallet signs as go-ethereum does, which knows nothing of this project.
type wallet struct {
	clef    bool // has Clef's methods only
	refuses bool
	asked   []string
}

func (w *wallet) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var q struct {
		Method string            `json:"method"`
		Params []json.RawMessage `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(rw, err.Error(), 400)
		return
	}
	w.asked = append(w.asked, q.Method)
	answer := map[string]any{"jsonrpc": "2.0", "id": 1}
	switch known := strings.HasPrefix(q.Method, "account_") == w.clef; {
	case !known:
		answer["error"] = RPCError{Code: methodNotFound, Message: "no such method"}
	case w.refuses:
		answer["error"] = RPCError{Code: 4001, Message: "the user says no"}
	default:
		digest, err := digestOf(q.Method, q.Params)
		if err != nil {
			answer["error"] = RPCError{Code: -32602, Message: err.Error()}
			break
		}
		key, err := crypto.ToECDSA(secret)
		if err != nil {
			panic(err)
		}
		sig, err := crypto.Sign(digest, key)
		if err != nil {
			panic(err)
		}
		answer["result"] = "0x" + strings.ToUpper(hex.EncodeToString(sig))
	}
	_ = json.NewEncoder(rw).Encode(answer)
}

func digestOf(method string, params []json.RawMessage) ([]byte, error) {
	var last, text string
	switch method {
	case "personal_sign":
		last = string(params[0])
	case "account_signData":
		last = string(params[2])
	default:
		var doc apitypes.TypedData
		if err := json.Unmarshal(params[1], &doc); err != nil {
			return nil, err
		}
		digest, _, err := apitypes.TypedDataAndHash(doc)
		return digest, err
	}
	if err := json.Unmarshal([]byte(last), &text); err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	return accounts.TextHash(raw), err
}

func TestRemote(t *testing.T) {
	key, err := flight.KeyFromBytes(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, clef := range []bool{false, true} {
		for _, scheme := range []flight.Scheme{flight.EIP712, flight.EIP191} {
			w := &wallet{clef: clef}
			srv := httptest.NewServer(w)
			defer srv.Close()
			s, err := Remote(srv.URL, key.Address(), nil)
			if err != nil {
				t.Fatal(err)
			}
			h := header(key.Address())
			sig, err := s.Sign(t.Context(), h, scheme)
			if err != nil {
				t.Fatalf("clef %v, %s: %v", clef, scheme, err)
			}
			b := flight.Batch{Header: h, Scheme: scheme, Signature: sig}
			if err := b.Verify(); err != nil {
				t.Errorf("clef %v, %s: %v", clef, scheme, err)
			}
			w.refuses = true
			var rpc *RPCError
			if _, err := s.Sign(t.Context(), h, scheme); !errors.As(err, &rpc) || rpc.Code != 4001 {
				t.Errorf("a refusal: %v, want code 4001", err)
			}
		}
	}
}

// TestRecorderWithWallet delivers through a wallet, and refuses one that signs with
// another key before anything is journaled or sent.
func TestRecorderWithWallet(t *testing.T) {
	key, err := flight.KeyFromBytes(secret)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(&wallet{})
	defer srv.Close()
	for agent, want := range map[flight.Address]error{key.Address(): nil, {1}: recorder.ErrSigner} {
		node, err := testnode.New()
		if err != nil {
			t.Fatal(err)
		}
		up := httptest.NewServer(node)
		defer up.Close()
		s, err := Remote(srv.URL, agent, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := recorder.Open(t.Context(), recorder.Options{Journal: t.TempDir(), Signer: s, NodeURL: up.URL, Interval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Record(t.Context(), recorder.Step{Kind: "note"}); err != nil {
			t.Fatal(err)
		}
		if err := r.Flush(t.Context()); !errors.Is(err, want) {
			t.Errorf("agent %s: flush = %v, want %v", agent, err, want)
		}
		if got := len(node.Headers()); (got == 1) != (want == nil) {
			t.Errorf("agent %s: the node holds %d batches", agent, got)
		}
		_ = r.Close(t.Context())
	}
}

func TestRemoteBadAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"no JSON": "<html>", "no result": "{}", "short": `{"result":"0x1234"}`, "a number": `{"result":7}`,
		"high s": `{"result":"0x` + strings.Repeat("11", 32) + strings.Repeat("ff", 32) + `1b"}`,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
		s, err := Remote(srv.URL+"/secret-path", flight.Address{1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if sig, err := s.Sign(t.Context(), header(flight.Address{1}), flight.EIP712); err == nil || strings.Contains(err.Error(), "secret-path") {
			t.Errorf("%s: %v, %v", name, sig, err)
		}
		srv.Close()
		if _, err := s.Sign(t.Context(), header(flight.Address{1}), flight.EIP712); err == nil || strings.Contains(err.Error(), "secret-path") {
			t.Errorf("%s, wallet gone: %v", name, err)
		}
	}
}

func TestKeystore(t *testing.T) {
	ks := keystore.NewKeyStore(t.TempDir(), keystore.LightScryptN, keystore.LightScryptP)
	account, err := ks.NewAccount("open sesame")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Keystore(account.URL.Path, "open sesame")
	if err != nil || s.Address() != flight.Address(account.Address) {
		t.Fatalf("Keystore = %v, %v; want %s", s, err, account.Address)
	}
	h := header(s.Address())
	sig, err := s.Sign(t.Context(), h, flight.EIP191)
	if b := (flight.Batch{Header: h, Scheme: flight.EIP191, Signature: sig}); err != nil || b.Verify() != nil {
		t.Errorf("signature %v, %v", sig, err)
	}
	if _, err := Keystore(account.URL.Path, "wrong"); !errors.Is(err, ErrKeystore) || !errors.Is(err, keystore.ErrDecrypt) {
		t.Errorf("wrong passphrase: %v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{bad, bad + "-absent"} {
		if _, err := Keystore(path, ""); !errors.Is(err, ErrKeystore) {
			t.Errorf("%s: %v, want ErrKeystore", path, err)
		}
	}
}
