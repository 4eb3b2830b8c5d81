package sidecar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/recorder"
)

// maxStepBytes is the longest step as JSON: four values of 1 MiB and their frame.
const maxStepBytes = flight.MaxDisclosureBytes

var stepKeys = []string{"kind", "name", "status", "prompt", "args", "result", "claim", "chainId", "txHash", "at"}

// parseStep reads one step strictly: an object with a kind and any of name, status,
// prompt, args, result, claim, chainId with txHash, and at in unix milliseconds. A
// null prompt, args or result is committed to; other values may not be null. Hex
// of claims and txHash is lower-cased.
func parseStep(text []byte) (recorder.Step, error) {
	var s recorder.Step
	v, err := canon.Parse(text, flight.MaxDisclosureDepth)
	if err != nil {
		return s, err
	}
	if v.Kind != canon.Object {
		return s, fmt.Errorf("a step is an object, not %s", v.Kind)
	}
	for _, m := range v.Obj {
		if err := setField(&s, m.Key, m.Value); err != nil {
			return s, fmt.Errorf("%s: %w", m.Key, err)
		}
	}
	return s, nil
}

func setField(s *recorder.Step, key string, v canon.Value) (err error) {
	switch key {
	case "kind":
		s.Kind, err = text(v)
	case "name":
		s.Name, err = text(v)
	case "status":
		s.Status, err = text(v)
	case "prompt":
		s.Prompt = v
	case "args":
		s.Args = v
	case "result":
		s.Result = v
	case "claim":
		s.Claim, err = claim(v)
	case "chainId":
		s.ChainID, err = integer(v)
	case "txHash":
		var hex string
		if hex, err = text(v); err == nil {
			s.TxHash, err = flight.ParseHash(strings.ToLower(hex))
		}
	case "at":
		var ms uint64
		ms, err = integer(v)
		s.At = time.UnixMilli(int64(ms))
	default:
		err = fmt.Errorf("unknown key; a step has %s", strings.Join(stepKeys, ", "))
	}
	return err
}

func text(v canon.Value) (string, error) {
	if v.Kind != canon.String {
		return "", fmt.Errorf("must be a string, not %s", v.Kind)
	}
	return v.Str, nil
}

func integer(v canon.Value) (uint64, error) {
	n, ok := v.Int()
	if !ok {
		return 0, errors.New("must be an integer from 0 to 2^53-1")
	}
	return n, nil
}

// claim lower-cases the addresses and reads the claim.
func claim(v canon.Value) (*flight.Claim, error) {
	v.Obj = slices.Clone(v.Obj)
	for i := range v.Obj {
		if m := &v.Obj[i]; m.Key == "to" || m.Key == "token" {
			m.Value.Str = strings.ToLower(m.Value.Str)
		}
	}
	c, err := flight.ParseClaim(v)
	return &c, err
}
