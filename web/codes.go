package web

import "net/http"

// A codeDoc is one public error code: its HTTP status and what it means. The
// description of the API and its tests read this table; codes may be added, never
// change meaning.
type codeDoc struct {
	status  int
	meaning string
}

var codes = map[string]codeDoc{
	"BAD_HTTP":               {http.StatusBadRequest, "the bytes are not one unambiguous HTTP request"},
	"BAD_REQUEST":            {http.StatusBadRequest, "details.field names what is wrong, details.code the JSON rule where the text itself is"},
	"UNAUTHORIZED":           {http.StatusUnauthorized, "the operator token is missing or wrong"},
	"BAD_SIGNATURE":          {http.StatusUnauthorized, "the signature does not recover to header.agent; details say what was hashed and who signed"},
	"FORBIDDEN":              {http.StatusForbidden, "Host or Origin is not this node's own"},
	"NOT_FOUND":              {http.StatusNotFound, "no route has this address"},
	"UNKNOWN_AGENT":          {http.StatusNotFound, "no batch of this key was ingested"},
	"UNKNOWN_STREAM":         {http.StatusNotFound, "no batch of this stream was ingested"},
	"UNKNOWN_BATCH":          {http.StatusNotFound, "the batch was never ingested"},
	"UNKNOWN_STEP":           {http.StatusNotFound, "the step was never disclosed"},
	"UNKNOWN_REPLAY":         {http.StatusNotFound, "no replay of the step was asked for, or there is none of that number"},
	"UNKNOWN_EPOCH":          {http.StatusNotFound, "there is no such epoch"},
	"UNKNOWN_EVIDENCE":       {http.StatusNotFound, "there is no such evidence"},
	"METHOD_NOT_ALLOWED":     {http.StatusMethodNotAllowed, "the Allow header lists the methods"},
	"REQUEST_TIMEOUT":        {http.StatusRequestTimeout, "the request did not arrive in time"},
	"EQUIVOCATION":           {http.StatusConflict, "the key signed another history; details.evidence proves it"},
	"NOT_ANCHORED":           {http.StatusConflict, "the batch waits for an epoch; details name the next run"},
	"NO_TX":                  {http.StatusConflict, "the step names no transaction"},
	"FOREIGN_TX":             {http.StatusConflict, "the chain does not show the transaction to be the agent's own"},
	"REPLAY_STATE":           {http.StatusConflict, "the replay is in no state that permits it: one that waits or runs can be cancelled, one that has ended can run again"},
	"BODY_TOO_LARGE":         {http.StatusRequestEntityTooLarge, "the body is over the route's limit"},
	"REVEAL_TOO_LARGE":       {http.StatusRequestEntityTooLarge, "the published fields are over 64 KiB"},
	"UNSUPPORTED_MEDIA_TYPE": {http.StatusUnsupportedMediaType, "details.accepts lists the types"},
	"STEP_SCHEMA":            {http.StatusUnprocessableEntity, "the step breaks the rules of the format"},
	"SIGNATURE":              {http.StatusUnprocessableEntity, "the batch's signature does not recover to its agent"},
	"STEP_BATCH":             {http.StatusUnprocessableEntity, "step, proof and header disagree on agent, stream or place"},
	"PROOF":                  {http.StatusUnprocessableEntity, "the path does not reach the signed root"},
	"PREV_HEAD":              {http.StatusUnprocessableEntity, "the first step does not link to header.prevHead"},
	"HEAD":                   {http.StatusUnprocessableEntity, "the last step is not header.head"},
	"REVEAL_KEY":             {http.StatusUnprocessableEntity, "a field is opened that the step does not commit to"},
	"COMMITMENT":             {http.StatusUnprocessableEntity, "an opened value does not match its commitment"},
	"CLAIM":                  {http.StatusUnprocessableEntity, "the opened claim is malformed"},
	"CLOCK_SKEW":             {http.StatusTooEarly, "createdAt is ahead of the node's clock; the same bytes are good later"},
	"RATE_LIMITED":           {http.StatusTooManyRequests, "this address has sent too many requests"},
	"REPLAY_QUEUE":           {http.StatusTooManyRequests, "100 replays wait already"},
	"RECHECK_QUEUE":          {http.StatusTooManyRequests, "256 transactions of the key are looked at again already"},
	"BATCH_QUOTA":            {http.StatusTooManyRequests, "this key has sent its batches of the day"},
	"REVEAL_QUOTA":           {http.StatusTooManyRequests, "this key has published its bytes of the day"},
	"HEADERS_TOO_LARGE":      {http.StatusRequestHeaderFieldsTooLarge, "address and headers are over 8 KiB"},
	"INTERNAL":               {http.StatusInternalServerError, "the node's log has the details under the request id"},
	"BUSY":                   {http.StatusServiceUnavailable, "send the same bytes again after Retry-After"},
	"NOT_READY":              {http.StatusServiceUnavailable, "chain, database or crons do not work now"},
	"TIMEOUT":                {http.StatusServiceUnavailable, "the node could not answer in time"},
	"DISK_FULL":              {http.StatusInsufficientStorage, "nothing was stored"},
}

// codesOf returns the refusals that a route can answer with, its own and those of
// its kind. Any is answered with BUSY past the bound of connections, and what reads the
// database also where a read is ended for others' sake.
func (r *route) codesOf() []string {
	out := append([]string{"BAD_HTTP", "HEADERS_TOO_LARGE", "INTERNAL", "BUSY"}, r.codes...)
	if r.kind != free {
		out = append(out, "BAD_REQUEST", "RATE_LIMITED", "TIMEOUT")
	}
	if r.kind == admin {
		out = append(out, "UNAUTHORIZED", "FORBIDDEN")
	}
	if r.body != nil {
		out = append(out, "BODY_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "REQUEST_TIMEOUT")
	}
	return out
}
