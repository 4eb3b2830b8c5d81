// Package sidecar lets a program in any language record steps: over HTTP on the
// loopback interface, or as JSON lines on its standard output piped here.
//
//	POST /steps   one step as JSON       201 {"stream":…,"seq":…,"hash":…}
//	POST /flush   deliver now            200 {} or 502
//	GET  /status  how far the recorder is
//
// Every request carries "Authorization: Bearer TOKEN" with the token of the token
// file. A web page can not use the sidecar: requests with an Origin, or under a
// Host name that is not the loopback interface's, are refused.
//
// Trust: whoever reads the token file can write steps into the agent's record.
package sidecar

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"karatum/flight"
	"karatum/flight/recorder"
)

// Config configures [Run]. Recorder is required, and Listen or Lines.
type Config struct {
	Recorder *recorder.Recorder // stays open
	// Listen is a loopback address such as 127.0.0.1:7070; port 0 takes any. Empty
	// means no HTTP.
	Listen string
	// TokenFile holds the HTTP token. It is made, readable by its owner only, where
	// it does not exist.
	TokenFile string
	// Lines is a stream of steps, one JSON object a line; nil means none. Each is
	// answered by a line on Answers, in order: what POST /steps answers.
	Lines   io.Reader
	Answers io.Writer // nil for none
	// Ready, when not nil, is called with the HTTP address once requests are taken.
	Ready func(addr string)
}

// ErrNotLoopback reports a Listen address that others could reach.
var ErrNotLoopback = errors.New("sidecar: listen address is not on the loopback interface")

// ErrRefused reports lines that were answered with an error. The others are recorded.
var ErrRefused = errors.New("sidecar: steps were refused")

// Run serves until ctx ends, or, without HTTP, until Lines ends. It flushes
// nothing and leaves the recorder open. Beside HTTP, refused lines are no error of
// Run's: their answers say it.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Recorder == nil || cfg.Listen == "" && cfg.Lines == nil {
		return errors.New("sidecar: Config needs Recorder, and Listen or Lines")
	}
	s := &server{rec: cfg.Recorder}
	lines := make(chan error, 1)
	if cfg.Listen == "" {
		go func() { lines <- s.lines(ctx, cfg.Lines, cfg.Answers) }()
		select {
		case err := <-lines:
			return err
		case <-ctx.Done(): // a read from standard input cannot be interrupted
			return nil
		}
	}
	var err error
	if s.token, err = token(cfg.TokenFile); err != nil {
		return err
	}
	l, err := listen(ctx, cfg.Listen)
	if err != nil {
		return err
	}
	if cfg.Lines != nil {
		go func() { lines <- s.lines(ctx, cfg.Lines, cfg.Answers) }()
	}
	if cfg.Ready != nil {
		cfg.Ready(l.Addr().String())
	}
	return serve(ctx, l, s.handler(), lines)
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("sidecar: listen address %q: %w", addr, err)
	}
	if !loopback(host) {
		return nil, fmt.Errorf("%w: %s", ErrNotLoopback, addr)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", addr)
}

// serve runs the server until ctx ends or a stream of lines breaks.
func serve(ctx context.Context, l net.Listener, h http.Handler, lines <-chan error) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	var err error
	for done := false; !done; {
		select {
		case err = <-lines:
			if errors.Is(err, ErrRefused) {
				err = nil
			}
			done = err != nil // the end of the lines does not end HTTP
		case err = <-served:
			done = true
		case <-ctx.Done():
			done = true
		}
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if down := srv.Shutdown(stop); down != nil {
		err = errors.Join(err, srv.Close())
	}
	return err
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// token reads the token file, or makes it.
func token(path string) (string, error) {
	if path == "" {
		return "", errors.New("sidecar: HTTP needs a token file")
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeToken(path)
	}
	t := strings.TrimSpace(string(raw))
	if err == nil && len(t) < 16 {
		err = fmt.Errorf("sidecar: %s holds no token of 16 or more characters", path)
	}
	return t, err
}

func makeToken(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	t := rand.Text()
	_, err = f.WriteString(t + "\n")
	return t, errors.Join(err, f.Close())
}

type server struct {
	rec   *recorder.Recorder
	token string
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /steps", s.step)
	mux.HandleFunc("POST /flush", s.flush)
	mux.HandleFunc("GET /status", s.status)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case !loopback(host) || r.Header.Get("Origin") != "":
			answer(w, http.StatusForbidden, failure("FORBIDDEN", "the sidecar is not for web pages"))
		case !ok || subtle.ConstantTimeCompare([]byte(got), []byte(s.token)) != 1:
			answer(w, http.StatusUnauthorized, failure("UNAUTHORIZED", "Authorization: Bearer with the token of the token file is missing"))
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

func (s *server) step(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxStepBytes))
	if err != nil {
		answer(w, http.StatusRequestEntityTooLarge, failure("TOO_LARGE", err.Error()))
		return
	}
	answer(w, 0, s.record(r.Context(), body))
}

func (s *server) flush(w http.ResponseWriter, r *http.Request) {
	if err := s.rec.Flush(r.Context()); err != nil {
		answer(w, http.StatusBadGateway, failure("NOT_DELIVERED", err.Error()))
		return
	}
	answer(w, http.StatusOK, reply{})
}

func (s *server) status(w http.ResponseWriter, _ *http.Request) {
	st := s.rec.Status()
	doc := map[string]any{
		"agent": s.rec.Agent(), "stream": st.Stream, "steps": st.Steps, "waiting": st.Waiting, "batches": st.Batches, "inflight": st.Inflight,
	}
	if st.Node != (flight.Address{}) {
		doc["node"] = st.Node // signs the receipts that count
	}
	answer(w, http.StatusOK, doc)
}

// A reply is the answer to one step: where it stands, or why it is not recorded.
type reply struct {
	Stream string   `json:"stream,omitempty"`
	Seq    *uint64  `json:"seq,omitempty"`
	Hash   string   `json:"hash,omitempty"`
	Error  *problem `json:"error,omitempty"`
}

type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func failure(code, message string) reply { return reply{Error: &problem{code, message}} }

func (s *server) record(ctx context.Context, text []byte) reply {
	step, err := parseStep(text)
	if err != nil {
		return failure("BAD_STEP", err.Error())
	}
	ref, err := s.rec.Record(ctx, step)
	switch {
	case errors.Is(err, recorder.ErrStep):
		return failure("BAD_STEP", err.Error())
	case err != nil:
		return failure("JOURNAL", err.Error())
	}
	return reply{Stream: ref.Stream, Seq: &ref.Seq, Hash: ref.Hash.String()}
}

// answer writes a reply; status 0 is taken from the reply.
func answer(w http.ResponseWriter, status int, doc any) {
	if r, ok := doc.(reply); ok && status == 0 {
		switch {
		case r.Error == nil:
			status = http.StatusCreated
		case r.Error.Code == "JOURNAL":
			status = http.StatusInsufficientStorage
		default:
			status = http.StatusBadRequest
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc) // a client that is gone needs no answer
}

// lines records every line of in. A line that is no step, or too long for one, is
// answered and skipped, and counted in the [ErrRefused] at the end; where nobody reads
// the answers any more, the steps are recorded all the same, and the error says so at
// the end. It returns when in ends, or ctx does and in can be closed.
func (s *server) lines(ctx context.Context, in io.Reader, out io.Writer) error {
	if c, ok := in.(io.Closer); ok {
		defer context.AfterFunc(ctx, func() { c.Close() })()
	}
	var mute error
	read, refused := 0, 0
	end := func() error {
		if refused > 0 {
			return errors.Join(mute, fmt.Errorf("%w: %d of %d lines", ErrRefused, refused, read))
		}
		return mute
	}
	br := bufio.NewReaderSize(in, 64<<10)
	for {
		text, long, err := readLine(br)
		if text = bytes.TrimSpace(text); long || len(text) > 0 {
			r := failure("BAD_STEP", fmt.Sprintf("the line is longer than %d bytes", maxStepBytes))
			if !long {
				r = s.record(ctx, text)
			}
			if read++; r.Error != nil {
				refused++
			}
			if out != nil && mute == nil {
				if err := json.NewEncoder(out).Encode(r); err != nil {
					mute = fmt.Errorf("sidecar: answer: %w", err)
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF) || err != nil && ctx.Err() != nil:
			return end()
		case err != nil:
			return errors.Join(end(), fmt.Errorf("sidecar: read steps: %w", err))
		}
	}
}

// readLine reads up to the next newline or the end. Of a line longer than any step
// it keeps the beginning only, and says so.
func readLine(br *bufio.Reader) (text []byte, long bool, err error) {
	for {
		part, err := br.ReadSlice('\n')
		if long = long || len(text)+len(part) > maxStepBytes; !long {
			text = append(text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, long, err
		}
	}
}
