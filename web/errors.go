package web

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"karatum/app"
)

// The refusals of the HTTP layer itself. Those of the protocol come from package
// app.
var (
	errNotFound    = &app.Error{Code: "NOT_FOUND", Status: http.StatusNotFound, Message: "there is nothing at this address"}
	errMethod      = &app.Error{Code: "METHOD_NOT_ALLOWED", Status: http.StatusMethodNotAllowed, Message: "this address does not take that method; see the Allow header"}
	errNoMethod    = &app.Error{Code: "METHOD_NOT_ALLOWED", Status: http.StatusNotImplemented, Message: "this server does not know that method"}
	errTooLarge    = &app.Error{Code: "BODY_TOO_LARGE", Status: http.StatusRequestEntityTooLarge, Message: "the body is larger than this route takes"}
	errHeaderSize  = &app.Error{Code: "HEADERS_TOO_LARGE", Status: http.StatusRequestHeaderFieldsTooLarge, Message: "the address and headers are larger than 8 KiB"}
	errEncoding    = &app.Error{Code: "UNSUPPORTED_MEDIA_TYPE", Status: http.StatusUnsupportedMediaType, Message: "compressed bodies are not taken; send it without Content-Encoding"}
	errSlow        = &app.Error{Code: "REQUEST_TIMEOUT", Status: http.StatusRequestTimeout, Message: "the request did not arrive in time"}
	errTruncated   = &app.Error{Code: "BAD_HTTP", Status: http.StatusBadRequest, Message: "the body ended early or its chunks are malformed"}
	errInternal    = &app.Error{Code: "INTERNAL", Status: http.StatusInternalServerError, Message: "something went wrong inside the node; its log has the details under the request id"}
	errDeadline    = &app.Error{Code: "TIMEOUT", Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second, Message: "the node could not answer in time"}
	errTooMany     = &app.Error{Code: "BUSY", Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Message: "too many large uploads are under way"}
	errToken       = &app.Error{Code: "UNAUTHORIZED", Status: http.StatusUnauthorized, Message: "send the operator token as Authorization: Bearer TOKEN; it is in DATA/operator.token"}
	errHost        = &app.Error{Code: "FORBIDDEN", Status: http.StatusForbidden, Message: "admin requests must name this node's own address in Host"}
	errOrigin      = &app.Error{Code: "FORBIDDEN", Status: http.StatusForbidden, Message: "admin requests must not come from another origin"}
	errNotReady    = &app.Error{Code: "NOT_READY", Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second, Message: "chain, database or crons do not work now; /node says what"}
	errConnections = &app.Error{Code: "BUSY", Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Message: "too many open connections"}
)

func badHTTP(message string) *app.Error {
	return &app.Error{Code: "BAD_HTTP", Status: http.StatusBadRequest, Message: message}
}

func badField(field, message string) *app.Error {
	return &app.Error{Code: "BAD_REQUEST", Status: http.StatusBadRequest, Message: message, Details: map[string]any{"field": field}}
}

func rateLimited(wait time.Duration) *app.Error {
	return &app.Error{Code: "RATE_LIMITED", Status: http.StatusTooManyRequests, RetryAfter: max(wait, time.Second),
		Message: "too many requests from this address"}
}

// errorBody is the one shape of every error (spec section 4).
type errorBody struct {
	Error errorView `json:"error"`
}

type errorView struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

func viewOf(e *app.Error) errorBody {
	details := e.Details
	if details == nil {
		details = map[string]any{}
	}
	return errorBody{errorView{e.Code, e.Message, details}}
}

// asError turns any error into one that may be shown. known is false where the
// error says nothing to the outside and belongs in the log.
func asError(err error) (e *app.Error, known bool) {
	var fe *fiber.Error
	switch {
	case errors.As(err, &e) && e.Status >= http.StatusBadRequest:
		return e, true
	case errors.Is(err, context.Canceled): // the server stops
		return app.ErrBusy, true
	case isTimeout(err):
		return errDeadline, false
	case errors.As(err, &fe):
		return ofStatus(fe), true
	}
	return errInternal, false
}

// ofStatus maps fiber's and fasthttp's own refusals, which carry a status only.
func ofStatus(fe *fiber.Error) *app.Error {
	for _, e := range []*app.Error{errNotFound, errMethod, errTooLarge, errHeaderSize, errSlow} {
		if e.Status == fe.Code {
			return e
		}
	}
	if fe.Code >= 500 {
		return errInternal
	}
	return badHTTP("the request is not well-formed HTTP")
}

// writeError writes the JSON form of a refusal.
func writeError(ctx *fasthttp.RequestCtx, e *app.Error) {
	body, err := json.Marshal(viewOf(e))
	if err != nil { // details that JSON cannot carry
		body, _ = json.Marshal(viewOf(errInternal))
	}
	setRefusal(ctx, e)
	ctx.Response.Header.SetContentTypeBytes(typeJSON)
	ctx.Response.SetBodyRaw(body)
}

// setRefusal sets the status and the headers that go with it.
func setRefusal(ctx *fasthttp.RequestCtx, e *app.Error) {
	ctx.Response.SetStatusCode(e.Status)
	if e.RetryAfter > 0 {
		ctx.Response.Header.Set(fiber.HeaderRetryAfter, retryAfter(e.RetryAfter))
	}
	if e.Status == http.StatusUnauthorized && e.Code == errToken.Code {
		ctx.Response.Header.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="karatum operator"`)
	}
}

// retryAfter is whole seconds, rounded up, so that a retry is never too early.
func retryAfter(d time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10)
}
