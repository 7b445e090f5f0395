package request

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/fleet"
	"github.com/hippo-ssm/hippo/session"
)

// Error is a response that reports an error of a request, or of the server.
type Error struct {
	Status  int    // HTTP status
	Message string // for the user
	Param   string // the invalid field of the request, "" for none
	Code    string // for a program: one of OpenAI's if possible, "" for none
	Retry   time.Duration
	Limit   string // the limit that was reached, in metrics; "" for none
}

// Kinds of limits that a request can reach.
const (
	LimitQueue    = "queue"
	LimitRequests = "requests"
	LimitTokens   = "tokens"
)

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Invalid returns the error of an invalid field.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Param: param, Message: param + ": " + fmt.Sprintf(format, args...)}
}

// Busy returns the error of a limit that admits no more requests for now.
func Busy(format string, args ...any) *Error {
	return &Error{
		Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded", Retry: time.Second, Limit: LimitQueue,
		Message: fmt.Sprintf(format, args...),
	}
}

// ErrDraining is the error of a server during shutdown.
var ErrDraining = &Error{
	Status: http.StatusServiceUnavailable, Code: "shutting_down", Retry: 5 * time.Second,
	Message: "the server is shutting down",
}

// errInternal hides an error from the client. The log has it.
var errInternal = &Error{Status: http.StatusInternalServerError, Message: "the server had an error; its log says more"}

// StatusGone is logged for a request whose client disconnected, as in nginx.
const StatusGone = 499

// ErrorOf returns the error that a client sees for err.
func ErrorOf(err error) *Error {
	var e *Error
	var field *batch.FieldError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &field):
		return Invalid(field.Field, "%s", field.Message)
	case errors.Is(err, batch.ErrNotFound):
		return &Error{Status: http.StatusNotFound, Code: "not_found", Message: err.Error()}
	case errors.Is(err, batch.ErrInUse):
		return &Error{Status: http.StatusConflict, Code: "in_use", Message: err.Error()}
	case errors.Is(err, batch.ErrLimit):
		return &Error{Status: http.StatusRequestEntityTooLarge, Code: "limit_exceeded", Message: err.Error()}
	case errors.Is(err, batch.ErrLater):
		return ErrDraining
	case errors.Is(err, session.ErrBusy):
		return Busy("%v", err)
	case errors.Is(err, session.ErrClosed):
		return ErrDraining
	case disk.IsFull(err):
		return &Error{
			Status: http.StatusInsufficientStorage, Code: "store_failed",
			Message: "the disk of the server takes no more data: nothing of this request is stored, and what was " +
				"stored before is as it was",
		}
	case errors.Is(err, fleet.ErrUnavailable):
		return &Error{
			Status: http.StatusServiceUnavailable, Code: "store_unavailable", Retry: time.Second,
			Message: "the bucket fails: this request has no answer, and what was stored before is as it was",
		}
	case errors.Is(err, fleet.ErrLost):
		return &Error{
			Status: http.StatusConflict, Code: "used_elsewhere", Retry: time.Second,
			Message: "another server has gone on from the same place meanwhile: this request is not stored",
		}
	case errors.Is(err, context.Canceled):
		return &Error{Status: StatusGone, Message: "the request was canceled"}
	}
	return errInternal
}

// Attrs returns the attributes of an error for the log. The message about a field may quote client data, so the log
// gets only the field's name.
func (e *Error) Attrs(err error) []slog.Attr {
	if e.Status != http.StatusBadRequest {
		return []slog.Attr{slog.String("error", err.Error())}
	}
	attrs := []slog.Attr{slog.String("error", "the request is wrong")}
	for _, word := range []struct{ key, value string }{{"param", e.Param}, {"code", e.Code}} {
		if word.value != "" {
			attrs = append(attrs, slog.String(word.key, word.value))
		}
	}
	return attrs
}

// Kind returns OpenAI's type of an error.
func (e *Error) Kind() string {
	switch {
	case e.Status == http.StatusUnauthorized:
		return "authentication_error"
	case e.Status == http.StatusForbidden:
		return "permission_error"
	case e.Status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case e.Status < http.StatusInternalServerError:
		return "invalid_request_error"
	}
	return "server_error"
}

// MarshalJSON writes OpenAI's error object.
func (e *Error) MarshalJSON() ([]byte, error) {
	type object struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	return json.Marshal(struct {
		Error object `json:"error"`
	}{object{e.Short(), e.Kind(), OrNull(e.Param), OrNull(e.Code)}})
}

// Short returns the message without unprintable characters, truncated to the length of an error.
func (e *Error) Short() string { return brief.Error(e).Error() }

// RetryHeader is the header with the time after which to retry.
const RetryHeader = "Retry-After"

// Headers sets the headers of an error.
func (e *Error) Headers(h http.Header) {
	if e.Retry > 0 {
		h.Set(RetryHeader, strconv.Itoa(int(math.Ceil(e.Retry.Seconds()))))
	}
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
}

// ErrScope returns the error of a key that does not have a scope.
func ErrScope(scope string) *Error {
	return &Error{
		Status: http.StatusForbidden, Code: "insufficient_scope",
		Message: fmt.Sprintf("the API key does not have the scope %q", scope),
	}
}

// ErrNoModel returns the error of an unknown model.
func ErrNoModel(name string) *Error {
	return &Error{
		Status: http.StatusNotFound, Param: "model", Code: "model_not_found",
		Message: fmt.Sprintf("model: found %.100q, which this server does not have; GET /v1/models lists them", name),
	}
}
