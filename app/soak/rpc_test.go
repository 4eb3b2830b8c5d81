package soak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// ask makes one JSON-RPC call and fails the test where it has no result.
func ask(t *testing.T, url, method string, out any, params ...any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": append([]any{}, params...)})
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Error != nil {
		t.Fatalf("%s: %s", method, answer.Error.Message)
	}
	if err := json.Unmarshal(answer.Result, out); err != nil {
		t.Fatalf("%s: %v in %s", method, err, answer.Result)
	}
}

// inputs are the inputs of all transactions of the chain, as hex without 0x.
func inputs(t *testing.T, url string) (all []string) {
	t.Helper()
	var head string
	ask(t, url, "eth_blockNumber", &head)
	var last uint64
	if _, err := fmt.Sscanf(head, "0x%x", &last); err != nil {
		t.Fatal(err)
	}
	for n := range last + 1 {
		var block struct {
			Transactions []struct{ Input string }
		}
		ask(t, url, "eth_getBlockByNumber", &block, fmt.Sprintf("0x%x", n), true)
		for _, tx := range block.Transactions {
			all = append(all, strings.TrimPrefix(tx.Input, "0x"))
		}
	}
	return all
}
