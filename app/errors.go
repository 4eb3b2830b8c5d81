package app

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"karatum/flight"
	"karatum/store"
)

// An Error is a refusal that a caller outside may see: a stable code, the HTTP
// status that goes with it, a sentence, and facts. Everything else that goes
// wrong is INTERNAL outside and whole in the log.
type Error struct {
	Code       string
	Status     int
	Message    string
	Details    map[string]any
	RetryAfter time.Duration // zero where a retry will not help
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Is reports whether target is an *Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// The refusals that carry no facts of their own (spec sections 4 and 6).
var (
	ErrUnknownBatch  = &Error{Code: "UNKNOWN_BATCH", Status: http.StatusNotFound, Message: "this node never ingested the batch"}
	ErrUnknownStep   = &Error{Code: "UNKNOWN_STEP", Status: http.StatusNotFound, Message: "no disclosure of this step was posted here; at most its hash is known"}
	ErrUnknownAgent  = &Error{Code: "UNKNOWN_AGENT", Status: http.StatusNotFound, Message: "no batch of this key was ingested here"}
	ErrUnknownStream = &Error{Code: "UNKNOWN_STREAM", Status: http.StatusNotFound, Message: "no batch of this stream was ingested here"}
	ErrUnknownEpoch  = &Error{Code: "UNKNOWN_EPOCH", Status: http.StatusNotFound, Message: "there is no such epoch"}
	ErrNoEvidence    = &Error{Code: "UNKNOWN_EVIDENCE", Status: http.StatusNotFound, Message: "there is no such evidence"}
	ErrDiskFull      = &Error{Code: "DISK_FULL", Status: http.StatusInsufficientStorage, RetryAfter: 30 * time.Second,
		Message: "the node's disk is full; nothing was stored, send the same bytes again later"}
	ErrBusy = &Error{Code: "BUSY", Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second,
		Message: "the node is busy or stopping; send the same bytes again"}
)

func badRequest(field, format string, args ...any) *Error {
	return &Error{Code: "BAD_REQUEST", Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...),
		Details: map[string]any{"field": field}}
}

// refuse turns a parse error of the flight package into BAD_REQUEST that names
// the field, and the JSON code where the text itself is at fault.
func refuse(err error) error {
	var fe *flight.FieldError
	if !errors.As(err, &fe) {
		return err
	}
	e := badRequest(fe.Field, "%s", fe.Error())
	if fe.Code != "" {
		e.Details["code"] = string(fe.Code)
	}
	return e
}

// outward translates the store's errors into those a caller may see.
func outward(err error) error {
	switch {
	case errors.Is(err, store.ErrDiskFull):
		return ErrDiskFull
	case errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrClosed):
		return ErrBusy
	}
	return err
}

// notFound replaces store.ErrNotFound by the sentence for the thing asked for.
func notFound(err error, e *Error) error {
	if errors.Is(err, store.ErrNotFound) {
		return e
	}
	return outward(err)
}
