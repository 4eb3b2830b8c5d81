package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"path"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/gofiber/fiber/v2"

	"karatum/app"
)

//go:embed static
var static embed.FS

// A file is served from memory: nothing in a request can name a path on disk.
type file struct {
	body  []byte
	media string
	etag  string
	small func() []byte // body in brotli, made once; nil for what is sent as it is
}

func newFile(name string, body []byte) file {
	sum := sha256.Sum256(body)
	return file{body: body, media: mediaOf(name), etag: `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// newAsset is a file that browsers load with a page.
func newAsset(name string, body []byte) file {
	f := newFile(name, body)
	f.small = sync.OnceValue(func() []byte {
		var b bytes.Buffer
		// A window beyond the body only costs memory, tens of megabytes at the default.
		window := min(max(bits.Len(uint(len(body))), 10), 22)
		w := brotli.NewWriterOptions(&b, brotli.WriterOptions{Quality: brotli.BestCompression, LGWin: window})
		_, err := w.Write(body)
		if errors.Join(err, w.Close()) != nil {
			return nil // a buffer never refuses
		}
		return b.Bytes()
	})
	return f
}

// compressAssets makes the small forms before a browser waits for them.
func (s *Server) compressAssets() {
	for _, f := range s.files {
		if f.small != nil {
			f.small()
		}
	}
}

// hash is the part of the name that changes with the content.
func (f file) hash() string { return strings.Trim(f.etag, `"`) }

func mediaOf(name string) string {
	switch path.Ext(name) {
	case ".mjs", ".js":
		return "text/javascript; charset=utf-8"
	case ".json":
		return "application/json"
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".woff2":
		return "font/woff2"
	case ".svg":
		return "image/svg+xml"
	case ".py":
		return "text/x-python; charset=utf-8"
	}
	return "text/plain; charset=utf-8"
}

// loadFiles reads what is served as it is, keyed by path without the base path.
func loadFiles(cfg Config) (map[string]file, error) {
	files := map[string]file{}
	for _, t := range []struct {
		prefix string
		fsys   fs.FS
	}{{"", static}, {"sdk/", cfg.SDK}, {"testvectors/", cfg.Vectors}} {
		if t.fsys == nil {
			continue
		}
		if err := addFiles(files, t.prefix, t.fsys); err != nil {
			return nil, fmt.Errorf("web: read files for /%s: %w", t.prefix, err)
		}
	}
	return files, nil
}

func addFiles(files map[string]file, prefix string, fsys fs.FS) error {
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !served(name) {
			return err
		}
		body, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		files["/"+prefix+name] = newFile(name, body)
		return nil
	})
}

// served keeps Go sources and test data of an embedded directory private.
func served(name string) bool {
	return path.Ext(name) != ".go" && !strings.Contains("/"+name, "/testdata/")
}

// sendFile answers with a file, or 304 where the client has it. forever is for
// names that change with the content.
func sendFile(c *fiber.Ctx, f file, forever bool) error {
	h := &c.Context().Response.Header
	if f.small != nil {
		h.Set(fiber.HeaderVary, fiber.HeaderAcceptEncoding)
		if small := f.small; c.Context().Request.Header.HasAcceptEncoding("br") && small() != nil {
			f.body, f.etag = small(), `"`+f.hash()+`-br"`
			h.Set(fiber.HeaderContentEncoding, "br")
		}
	}
	h.Set(fiber.HeaderETag, f.etag)
	if forever {
		h.Set(fiber.HeaderCacheControl, "public, max-age=31536000, immutable")
	} else {
		h.Set(fiber.HeaderCacheControl, "no-cache")
	}
	if matches(c.Context(), f.etag) {
		c.Context().Response.SetStatusCode(fiber.StatusNotModified)
		return nil
	}
	h.SetContentType(f.media)
	c.Context().Response.SetBodyRaw(f.body)
	return nil
}

// serveTree serves the files of one prefix, and their names at the prefix itself.
func serveTree(s *Server, c *fiber.Ctx) error {
	name := strings.TrimPrefix(c.Path(), s.cfg.BasePath)
	if f, ok := s.files[name]; ok {
		return sendFile(c, f, false)
	}
	if name != "/sdk/" && name != "/testvectors/" {
		return errNotFound
	}
	list := app.List[string]{Items: []string{}}
	for _, n := range s.fileNames {
		if rest, ok := strings.CutPrefix(n, name); ok {
			list.Items = append(list.Items, rest)
		}
	}
	return writeJSON(c, fiber.StatusOK, list)
}
