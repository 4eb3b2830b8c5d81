package app

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
)

// errArchiveBeside refuses an archive among other files: it is read as it comes,
// and what it holds is not of one batch.
var errArchiveBeside = errors.New("an exported record is verified by itself, without other files")

// VerifyFiles verifies the documents in files, or one exported record, told apart
// by their first bytes; "-" is stdin. The error is of a file that cannot be read.
func VerifyFiles(ctx context.Context, names []string, stdin io.Reader, o VerifyOptions) (*Verification, error) {
	docs := make([][]byte, len(names))
	for i, name := range names {
		f, err := openDocument(name, stdin)
		if err != nil {
			return nil, err
		}
		r := bufio.NewReader(f)
		head, err := r.Peek(2) // a document of one byte or none is refused as one
		archive := err == nil && IsArchive(head)
		if archive && len(names) == 1 {
			v := VerifyArchive(ctx, r, o)
			return v, f.Close()
		}
		docs[i], err = io.ReadAll(io.LimitReader(r, maxVerifyBytes+1))
		if archive {
			err = errArchiveBeside
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return Verify(ctx, docs, o), nil
}

func openDocument(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(name)
}
